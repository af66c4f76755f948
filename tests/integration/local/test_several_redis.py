"""A cluster of this machine whose frontier has three partitions, by the commands of users."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from crawlstream.boot.variables import environment_without_settings
from crawlstream_chaos.cluster import SETTINGS
from crawlstream_chaos.processes import RunningServer, freeze
from crawlstream_chaos.scripted_site import CrawlerSite, serving
from crawlstream_chaos.witness import Witness
from crawlstream_cli.local.ports import Ports
from support.crawler.spread_web import spread
from support.forks.program import run
from support.waiting import wait_until

PARTITIONS = 3
HOSTS = [f"127.0.3.{n}" for n in range(2, 14)]


@dataclass
class Person:
    """A user at a terminal, whose environment names a home and ports and nothing else."""

    env: dict[str, str]
    folder: Path

    async def types(self, *arguments: str, status: int = 0) -> str:
        """Output of a command that ends with this status."""
        done = await asyncio.to_thread(
            run, "crawlstream_cli", *arguments, env=self.env, folder=self.folder, timeout_s=200
        )
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr

    async def status(self) -> dict[str, Any]:
        """Output of `status --json`."""
        told: dict[str, Any] = json.loads((await self.types("status", "--json")).splitlines()[0])
        return told

    async def states(self) -> list[str]:
        """The state of each partition."""
        return [each["state"] for each in (await self.status())["partitions"]]


@pytest.fixture
async def person(
    tmp_path: Path, kafka_server: RunningServer, zookeeper_server: RunningServer, fresh_name: str
) -> AsyncIterator[Person]:
    """A user who has started a cluster of three partitions; it is stopped in the end."""
    env = {
        **environment_without_settings(os.environ),
        **SETTINGS,
        **Ports.free().variables(),
        "CRAWLSTREAM_HOME": str(tmp_path / "home"),
        "KAFKA_HOSTS": f"127.0.0.1:{kafka_server.port}",
        "KAFKA_TOPIC_PREFIX": fresh_name,
        "ZOOKEEPER_ASSIGN_PATH": f"/{fresh_name}/",
        "ZOOKEEPER_HOSTS": f"127.0.0.1:{zookeeper_server.port}",
    }
    person = Person(env, tmp_path)
    try:
        await person.types("up", "-d", "--partitions", str(PARTITIONS), "--spider", "link=2")
        yield person
    finally:
        await person.types("down")


@pytest.fixture
def site() -> Iterator[CrawlerSite]:
    """An empty web."""
    with serving({}) as site:
        yield site


async def test_a_redis_is_killed_and_comes_back(person: Person, site: CrawlerSite) -> None:
    """Status names it meanwhile, the other partitions go on, and each page comes.

    Afterwards the cluster is started again with the number of partitions that it has; another one
    is refused.
    """
    told = await person.status()
    redis = {each["name"]: each["pid"] for each in told["processes"] if each["kind"] == "redis"}
    assert list(redis) == ["redis-0", "redis-1", "redis-2"]
    assert [each["state"] for each in told["partitions"]] == ["ready"] * PARTITIONS
    urls = spread(site, HOSTS, pages=30)
    witness = Witness(person.env["KAFKA_HOSTS"], person.env["KAFKA_TOPIC_PREFIX"])
    try:
        crawl = {"appid": "people", "crawlid": "divided", "maxdepth": 60}
        witness.feed(*({"url": url, **crawl} for url in urls[: len(HOSTS)]))
        await wait_until(lambda: len(site.visits) > 40)
        # Frozen it is away for as long as the health listener lets it be.
        freeze(redis["redis-1"])
        await wait_until(lambda: _names_partition_1(person), timeout_s=15)
        before = len(site.visits)
        await wait_until(lambda: len(site.visits) > before + 10)
        os.kill(redis["redis-1"], signal.SIGKILL)
        ending = await witness.ended("divided", timeout_s=150)
        assert {result["url"] for result in witness.results("divided")} == set(urls)
        assert len(witness.events("divided", "crawl_finished")) == 1
    finally:
        witness.close()
    assert ending["counters"]["admitted"] == ending["counters"]["done"] == len(urls)
    assert await person.states() == ["ready"] * PARTITIONS
    assert "Ready to accept connections" in await person.types("logs", "redis-1", "-n", "50")
    await _check_that_the_number_stays(person)


async def _names_partition_1(person: Person) -> bool:
    told = await person.status()
    states = [each["state"] for each in told["partitions"]]
    named = any(each.startswith("partition 1 (127.0.0.1:") for each in told["warnings"])
    return states == ["ready", "unavailable", "ready"] and named


async def _check_that_the_number_stays(person: Person) -> None:
    running = await person.types("up", "--spider", "link=1", "--partitions", "4", status=1)
    assert "leave it out" in running
    await person.types("down")
    refused = await person.types("up", "-d", "--partitions", "4", status=1)
    assert "has 3 partitions, which cannot be changed to 4" in " ".join(refused.split())
    assert "CRAWLSTREAM_HOME" in refused
    await person.types("up", "-d")
    assert await person.states() == ["ready"] * PARTITIONS
