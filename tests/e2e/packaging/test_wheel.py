"""The wheel, installed where nothing else is: commands and own spiders for a cluster elsewhere."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import zipfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from crawlstream_chaos.versions.before import install_wheel
from crawlstream_cli.dev.changed import PACKAGES
from e2e.cluster import Cluster
from e2e.sites import Serve

ROOT = Path(__file__).parents[3]
_SPIDER = """
from crawling import ClusterSpider

class Shop(ClusterSpider):
    name = "shop"

    def parse(self, response):
        yield self.result(response, attrs={"by": "shop"})
"""
_LAKE = '[pipeline.lake]\nsink = {kind = "delta", url = "lake"}\n'
_PIPELINE = """
[pipeline.texts]
stage = [{use = "text"}]
sink = {kind = "files", format = "jsonl", path = "out"}
"""
_VERBS_OF_A_CHECKOUT = ("up", "demo", "test", "check", "bench page", "install")
_OF_A_CHECKOUT = f"""
from crawlstream_cli.app import run
assert {{run(verb.split()) for verb in {_VERBS_OF_A_CHECKOUT}}} == {{1}}
"""
_COMPLETED = {"crawlstream thr": "throttle", "crawlstream crawl --scop": "--scope"}


class Installed:
    """A virtual environment that has the wheel and what the wheel asks for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = install_wheel(ROOT, folder)
        (self.wheel,) = (folder / "dist").iterdir()

    def environment(self, **variables: str) -> dict[str, str]:
        """Return the variables of a user who has no checkout."""
        return {"PATH": f"{self.python.parent}:{os.defpath}", "HOME": str(self.folder), **variables}

    async def run(
        self, *argv: str, status: int, env: Mapping[str, str] | None = None
    ) -> tuple[str, str]:
        """Run a program of it to its end: what it prints, and says."""
        process = await asyncio.create_subprocess_exec(
            str(self.python.with_name(argv[0])),
            *argv[1:],
            cwd=self.folder,
            env=env or self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(), 120)
        assert process.returncode == status, (argv, out.decode(), err.decode())
        return out.decode(), err.decode()

    @asynccontextmanager
    async def crawling(self, spider: str, env: Mapping[str, str]) -> AsyncIterator[None]:
        """Run a crawler of it for the length of the block."""
        argv = (str(self.python), "-m", "crawling", spider)
        process = await asyncio.create_subprocess_exec(*argv, cwd=self.folder, env=env)
        try:
            yield
            assert process.returncode is None
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()


@pytest.fixture(scope="module", name="installed")
def installed_fixture(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel of this checkout."""
    return Installed(tmp_path_factory.mktemp("wheel"))


async def test_the_wheel_crawls_in_a_cluster_elsewhere_by_a_spider_of_ones_own(
    installed: Installed, cluster: Cluster, serve: Serve
) -> None:
    """`crawling` runs the spider, `crawlstream crawl` feeds it and writes its results."""
    (installed.folder / "shop.py").write_text(_SPIDER)
    elsewhere = {
        **cluster.local.client_settings,
        "CRAWLSTREAM_ALLOW_NETWORKS": "127.0.0.0/8",
        "CRAWLSTREAM_HOME": str(installed.folder / "home"),
        "CRAWLSTREAM_METRICS_OFFSET": "20",
        "CRAWLSTREAM_SPIDER_MODULES": "shop",
    }
    environment = installed.environment(**elsewhere, PYTHONPATH=".")
    crawl = ("crawlstream", "crawl", "--spider", "shop", "-o", "pages.jsonl")
    async with serve(hosts=1, pages=2) as served, installed.crawling("shop", environment):
        await installed.run(*crawl, served.web.seed_url, status=0, env=environment)
    (page,) = map(json.loads, (installed.folder / "pages.jsonl").read_text().splitlines())
    assert (page["url"], page["attrs"]) == (served.web.seed_url, {"by": "shop"})


async def test_the_wheel_has_its_commands_types_and_completion(installed: Installed) -> None:
    """Runs commands by both of their names, and completes verbs and their options."""
    out, _ = await installed.run("crawlstream", "--help", status=0)
    assert "Start and stop" in out
    assert "chaos" not in out
    for module in ("crawlstream", "crawlstream_cli"):
        out, _ = await installed.run("python", "-m", module, "--version", status=0)
        assert out == "0.1.0\n"
    for words, completed in _COMPLETED.items():
        asks = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        env = installed.environment(_CRAWLSTREAM_COMPLETE="complete_bash", **asks)
        assert (await installed.run("crawlstream", status=0, env=env))[0].split() == [completed]
    home = "from crawlstream.boot.local_note import home_path; print(home_path())"
    out, _ = await installed.run("python", "-c", home, status=0)
    assert Path(out.strip()) == (installed.folder / ".crawlstream").resolve()
    packages = set(PACKAGES.values()) - {"crawlstream_chaos"}
    with zipfile.ZipFile(installed.wheel) as wheel:
        names = wheel.namelist()
    assert {f"{package}/py.typed" for package in packages} <= {*names}
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == packages


async def test_the_wheel_says_what_is_missing_in_one_sentence(installed: Installed) -> None:
    """An extra by the command that installs it; a verb for a checkout by where it runs."""
    (installed.folder / "shop.py").write_text(_SPIDER)
    (installed.folder / "pipelines.toml").write_text(_PIPELINE)
    (installed.folder / "lake.toml").write_text(_LAKE)
    crawl = ("crawlstream", "crawl", "http://127.0.0.1:9/")
    check = ("python", "-m", "crawling", "--check", "shop")
    shop = {"CRAWLSTREAM_SPIDER_MODULES": "shop", "PYTHONPATH": "."}
    for argv, extra, variables in (
        ((*crawl, "-o", "pages.parquet"), "pipeline", {}),
        (check, "pipeline", {**shop, "CRAWLSTREAM_BODY_STORE": "s3://bucket"}),
        (("crawlstream", "pipeline", "check"), "extract", {}),
        (("crawlstream", "pipeline", "check"), "delta", {"CRAWLSTREAM_PIPELINES": "lake.toml"}),
        (("crawlstream", "query", "select 1"), "query", {}),
        (("crawlstream", "mcp"), "mcp", {}),
        (("rest-service",), "mcp", {"CRAWLSTREAM_MCP": "read"}),
        (check, "tls", {**shop, "CRAWLSTREAM_TLS_PROFILES": "chrome"}),
    ):
        env = installed.environment(**variables)
        _, said = await installed.run(*argv, status=2, env=env)
        assert f"pip install 'crawlstream[{extra}]'" in said
        assert said.count("\n") == 1, said
    _, said = await installed.run("python", "-c", _OF_A_CHECKOUT, status=0)
    refused = said.splitlines()
    assert len(refused) == len(_VERBS_OF_A_CHECKOUT), said
    assert all("run it as ./crawlstream in the checkout" in each for each in refused), said
