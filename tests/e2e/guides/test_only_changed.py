"""The guide to what has changed, followed from its first line to its last."""

from __future__ import annotations

import json
import re
import shlex
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from crawlstream_chaos.scripted_site import HTML, Answer, CrawlerSite, Page, SeenRequest, serving
from e2e.cluster import Cluster, Done
from support.waiting import WaitUntil

GUIDE = (Path(__file__).parents[3] / "docs" / "only-changed.md").read_text(encoding="utf-8")
SLOWLY_S = 240
COMMANDS = [
    line for text in re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL) for line in text.splitlines()
]
NIGHTLY, EACH_MINUTE = 'cron = "30 2 * * *"', 'cron = "* * * * *"'


def block(language: str) -> str:
    """The piece of code of the guide that is in a language."""
    (found,) = re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)
    return str(found)


def titled(title: str, *links: str) -> Page:
    """A page that answers 304 to whom has it already."""
    anchors = "".join(f'<a href="{link}">{link}</a>' for link in links)
    body = f"<html><head><title>{title}</title></head><body>{anchors}</body></html>"
    tag = f'"{abs(hash(body))}"'

    def answer(visit: SeenRequest) -> Answer:
        if visit.headers.get("if-none-match") == tag:
            return Answer(status=304, headers={"ETag": tag})
        return Answer(body.encode(), headers={**HTML, "ETag": tag})

    return answer


class Reader:
    """A reader who follows the guide, in an empty folder."""

    def __init__(self, cluster: Cluster, folder: Path, site: CrawlerSite) -> None:
        self.cluster, self.folder, self.site = cluster, folder, site
        self.typed: set[str] = set()
        assert NIGHTLY in block("toml")
        text = block("toml").replace(NIGHTLY, EACH_MINUTE)
        (folder / "pipelines.toml").write_text(text)

    def words(self, beginning: str) -> list[str]:
        """The one command of the guide that begins so, about the site as it is here."""
        command = next(each for each in COMMANDS if each.startswith(f"./crawlstream {beginning}"))
        self.typed.add(command)
        here = command.replace("https://shop.example.com", self.site.url(""))
        return shlex.split(here.removeprefix("./crawlstream "))

    async def runs(self, *words: str) -> Done:
        """Run a command, which must succeed."""
        done = await self.cluster.run(*words, folder=self.folder, timeout_s=SLOWLY_S)
        assert done.status == 0, done.err
        return done

    async def types(self, beginning: str) -> str:
        """Run a command of the guide: what it prints."""
        return (await self.runs(*self.words(beginning))).out

    async def changed(self, since: str) -> Mapping[str, Mapping[str, Any]]:
        """Return by path the lines of the guide's last command since a time."""
        words = [since if word == "24h" else word for word in self.words("pages changed shop --")]
        told = [json.loads(line) for line in (await self.runs(*words)).out.splitlines()]
        return {each["url"].removeprefix(self.site.url("")): each for each in told}

    async def published(self) -> Mapping[str, Sequence[str]]:
        """Return by path the kinds of its changes that are events, in their order."""
        lines = (await self.types("dump events")).splitlines()
        events = [json.loads(line) for line in lines if '"page_changed"' in line]
        kinds: dict[str, list[str]] = {}
        for event in sorted(events, key=lambda event: str(event["at"])):
            kinds.setdefault(event["url"].removeprefix(self.site.url("")), []).append(
                event["change"]
            )
        return kinds


async def test_the_guide_to_what_has_changed_works(
    cluster: Cluster, tmp_path: Path, wait_until: WaitUntil
) -> None:
    """Lists new, changed and gone pages with their items; others cost a 304."""
    shop = {
        "/": titled("Shop", "/p/1", "/p/2", "/p/3"),
        **{f"/p/{n}": titled(f"Lamp {n}, 14.00") for n in (1, 2, 3)},
    }
    with serving(shop) as site:
        reader = Reader(cluster, tmp_path, site)
        await reader.runs("throttle", "set", "127.0.0.1", "--hits", "50", "--window", "1")
        await reader.types("pipeline check")
        await reader.types("schedule set")
        await reader.types("schedule fire")
        words = reader.words("pipeline run")
        async with cluster.begun(*words, folder=tmp_path) as running:

            async def knows_all() -> bool:
                status = reader.words("pages status")
                return bool(json.loads((await reader.runs(*status, "--json")).out)["pages"] == 4)

            await wait_until(knows_all, every_s=4, timeout_s=SLOWLY_S)
            since = datetime.now(UTC).isoformat()
            site.pages["/p/1"] = titled("Lamp 1, 12.50")
            del site.pages["/p/2"]
            site.pages["/"] = titled("Shop", "/p/1", "/p/2", "/p/3", "/p/4")
            site.pages["/p/4"] = titled("Lamp 4, 9.00")
            await reader.types("schedule fire")

            async def all_told() -> Mapping[str, Mapping[str, Any]] | None:
                told = await reader.changed(since)
                return told if {"/p/1", "/p/2", "/p/4"} <= told.keys() else None

            told: Mapping[str, Any] = await wait_until(all_told, every_s=6, timeout_s=SLOWLY_S)

            async def all_published() -> bool:
                return await reader.published() == {
                    **{path: ["new"] for path in ("/", "/p/3", "/p/4")},
                    "/p/1": ["new", "changed"],
                    "/p/2": ["new", "gone"],
                }

            await wait_until(all_published, every_s=2, timeout_s=SLOWLY_S)
            running.terminate()
            await running.communicate()
        listed = await reader.runs(*reader.words("pages changed shop"), "--since", since)
        status = await reader.types("pages status")
    assert {path: one["change"] for path, one in told.items()} == {
        "/p/1": "changed",
        "/p/2": "gone",
        "/p/4": "new",
    }
    titles = {
        path: (_title(one["items_before"]), _title(one["items"])) for path, one in told.items()
    }
    assert titles == {
        "/p/1": ("Lamp 1, 14.00", "Lamp 1, 12.50"),
        "/p/2": (None, "Lamp 2, 14.00"),
        "/p/4": (None, "Lamp 4, 9.00"),
    }
    assert "1 new, 1 changed, 1 gone, since" in listed.out
    assert "* * * * * (Europe/Berlin)" in status
    assert any(
        visit.path == "/p/3" and "if-none-match" in visit.headers for visit in site.visits
    ), "what has not changed was asked for conditionally"
    with sqlite3.connect(tmp_path / "shop.db") as database:
        rows = database.execute(block("sql")).fetchall()
    assert [row[1:] for row in rows] == [("Lamp 1, 14.00", "Lamp 1, 12.50")]
    assert reader.typed == set(COMMANDS)


def _title(items: list[Mapping[str, Any]] | None) -> str | None:
    return None if items is None else items[0]["title"]


async def test_a_crawl_that_is_repeated_stays_on_its_site(
    cluster: Cluster, tmp_path: Path, wait_until: WaitUntil
) -> None:
    """`crawl --every` sets a schedule that fires at once, and has the scope of `crawl`."""
    elsewhere = "http://127.0.0.9:{port}/elsewhere"
    with serving({"/a": titled("A"), "/elsewhere": titled("Elsewhere")}) as site:
        site.pages["/"] = titled("Home", "/a", elsewhere.format(port=site.port))
        reader = Reader(cluster, tmp_path, site)
        await reader.runs("throttle", "set", "127.0.0.1", "--hits", "50", "--window", "1")
        words = ("--appid", "again")
        said = await reader.runs("crawl", site.url("/"), "--depth", "2", "--every", "1d", *words)
        assert said.out.startswith(
            "Schedule 127.0.0.1 feeds 1 seed and follows links 2 levels deep, "
        )
        assert "It fires now, too." in said.out

        async def has_ended() -> bool:
            told = json.loads((await reader.runs("crawls", "--json", *words)).out)
            return "finished" in {one["state"] for one in told}

        await wait_until(has_ended, every_s=2, timeout_s=SLOWLY_S)
        assert sorted(site.paths()) == ["/", "/a"]
        await reader.runs("schedule", "rm", "127.0.0.1", *words)
