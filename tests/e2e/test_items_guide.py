"""The guide to the items of a shop, followed from its first line to its last."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import run
from typing import Any

from crawlstream_chaos.scripted_site import Answer, page, serving
from crawlstream_chaos.stores.postgres import RunningPostgres
from e2e.cluster import Cluster, Done
from support.waiting import WaitUntil

GUIDE = (Path(__file__).parents[2] / "docs" / "items.md").read_text(encoding="utf-8")
SLOWLY_S = 240
PRODUCTS = 12
REDUCED = (3, 7)
"""Whose prices stand elsewhere."""


def block(language: str, number: int = 0) -> str:
    """A piece of code of the guide."""
    found: list[str] = re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)
    return found[number]


COMMANDS = [
    line for text in re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL) for line in text.splitlines()
]


def product(number: int) -> Answer:
    """The page of a product."""
    kind = "reduced" if number in REDUCED else "price"
    return page(
        text=f'<div class="product"><h1>Lamp  {number}</h1><b class="{kind}">{number}.5</b>'
        '<i class="tag">light</i></div>'
    )


SHOP = {
    "/": page(*(f"/p/{number}" for number in range(PRODUCTS)), "/imprint"),
    "/imprint": page(text="<h1>Imprint</h1>"),
    **{f"/p/{number}": product(number) for number in range(PRODUCTS)},
}


class Reader:
    """A reader who follows the guide in an empty folder."""

    def __init__(self, cluster: Cluster, folder: Path, shop: str) -> None:
        self.cluster = cluster
        self.folder = folder
        self.shop = shop
        self.typed: list[str] = []
        self.write("shop.py", block("python"))
        self.write("product.schema.json", block("json"))
        self.write("pipelines.toml", block("toml"))

    def write(self, name: str, text: str) -> None:
        """A file of theirs; the shop is where it is."""
        text = text.replace(r"https://shop\.example\.com", re.escape(self.shop))
        (self.folder / name).write_text(text)

    def words(self, command: str) -> list[str]:
        """A command of the guide, about the shop as it is here."""
        assert command in COMMANDS, f"the guide does not say: {command}"
        self.typed.append(command)
        here = command.replace("https://shop.example.com", self.shop)
        return shlex.split(here.removeprefix("./crawlstream "))

    async def types(self, command: str) -> Done:
        """Run a command of the guide to its end."""
        return await self.runs(*self.words(command))

    async def runs(self, *words: str) -> Done:
        """Run a command to its end, however busy the machine is."""
        return await self.cluster.run(*words, folder=self.folder, timeout_s=SLOWLY_S)

    async def stored(self, wait_until: WaitUntil) -> tuple[Mapping[str, Any], Done]:
        """Run the pipeline until the crawl is stored; the report as JSON and as a table."""

        async def judged() -> Mapping[str, Any] | None:
            done = await self.runs("pipeline", "report", "products", "--json")
            told = [json.loads(line) for line in done.out.splitlines()]
            return next((each for each in told if "ok" in each), None)

        words = self.words("./crawlstream pipeline run products")
        async with self.cluster.begun(*words, folder=self.folder) as running:
            told: Mapping[str, Any] = await wait_until(judged, every_s=1, timeout_s=SLOWLY_S)
            running.terminate()
            _, said = await running.communicate()
            assert running.returncode == 0, said
        return told, await self.types("./crawlstream pipeline report products")


def lines(text: str) -> str:
    """Lines of a table with one blank for several, and without what the crawl is called.

    The number of its run is above that of any crawl which the cluster has forgotten.
    """
    found = (" ".join(line.split()) for line in text.splitlines())
    return "\n".join(re.sub(r"^[0-9a-f]{12} \d+ ", "ID RUN ", line) for line in found)


async def test_the_guide_to_items_works(
    cluster: Cluster, tmp_path: Path, wait_until: WaitUntil, postgres_server: RunningPostgres
) -> None:
    """Each command of it, its files, its table and its correction, on a shop as it describes."""
    with serving(SHOP) as site:
        reader = Reader(cluster, tmp_path, site.url(""))
        await reader.runs("throttle", "set", "127.0.0.1", "--hits", "50", "--window", "1")
        crawled = await reader.types("./crawlstream crawl https://shop.example.com/ --depth 1")
        assert crawled.status == 0, crawled.err
        checked = await reader.types("./crawlstream pipeline check products")
        assert checked.status == 0, checked.err
        assert "product, clean, validate" in checked.out
        shown = await reader.types("./crawlstream pipeline preview products -n 3")
        assert shown.status == 0, shown.err
        assert len(shown.out.splitlines()) == 3

        told, report = await reader.stored(wait_until)
        assert (told["delivered"], told["filtered"], told["complete"]) == (
            PRODUCTS,
            {"product": 2},
            True,
        )
        assert told["ok"] is False
        assert report.status == 1
        assert lines(block("text")) in lines(report.out)

        wrong = 'price = box.css(".price::text").get()\n'
        assert wrong in block("python")
        reader.write("shop.py", block("python").replace(wrong, block("python", 1)))
        again = block("toml").replace("[pipeline.products]\n", "[pipeline.products]\nedition = 2\n")
        reader.write("pipelines.toml", again)
        told, report = await reader.stored(wait_until)
        assert told["ok"] is True, told
        assert report.status == 0
        assert "valid 95.0%: met" in " ".join(report.out.split())
        url = postgres_server.make_database(f"shop{os.getpid()}")
        read = await _read_by_psql(reader, again, url)
        assert lines(block("text", 1)) in lines(read)
        assert f"({PRODUCTS} rows)" in read
    assert set(reader.typed) == set(COMMANDS)
    _read_by_pyarrow(tmp_path)


async def _read_by_psql(reader: Reader, pipeline: str, url: str) -> str:
    """Return the guide's last table."""
    before, sink = "[pipeline.products.sink]", block("toml", 1)
    told = pipeline.partition(before)[0] + sink
    reader.write("pipelines.toml", told.replace("postgresql://postgres@localhost/shop", url))
    checks, runs, asks = block("sh", 5).splitlines()
    for command in (checks, runs):
        done = await reader.types(command)
        assert done.status == 0, done.err
    reader.typed.append(asks)
    return _answer([url if "://" in word else word for word in shlex.split(asks)])


def _answer(words: Sequence[str]) -> str:
    return run([*words, "-X"], capture_output=True, text=True, check=True).stdout


def _read_by_pyarrow(folder: Path) -> None:
    done = run(
        [sys.executable, "-c", block("python", 2)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [line.rsplit(" ", 2)[:2] for line in done.stdout.splitlines()]
    assert rows == [[f"Lamp {number}", f"{number}.5"] for number in range(PRODUCTS)]
