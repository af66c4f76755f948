"""``crawlstream repartition`` as a person calls it: killed at each step, refused, and given up."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from crawlstream.keys import FrontierKeys
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.partitions.messages import CoordinatorMark
from crawlstream.model.process import Process
from crawlstream.stats.heartbeat import Heartbeat
from crawlstream.wire import run_marks
from crawlstream_chaos.processes import RunningServer
from crawlstream_frontier.layout import Layout, create_frontier
from crawlstream_frontier.partitions.frontiers import Frontiers
from support.forks.program import run
from support.frontier.bench import GRACE_MS, Bench, Feed, links, open_bench
from support.monitors import MonitorCluster, Servers, named_after
from support.partitions.moving import frontiers_in, ledgers_in, seen_in, waiting_in

STEPS = ("begun", "noted", "stopped", "frozen", "wiped", "page", "page", "copied", "opened")
ENDED = CrawlKey("link", "app", "ended")
HOSTS = [f"host{n}.example" for n in range(40)]


class Person:
    """An operator with one frontier, who wants it in another number of partitions."""

    def __init__(self, cluster: MonitorCluster, redis: Redis, home: Path) -> None:
        self.redis = redis
        self._env = {**cluster.env, "CRAWLSTREAM_HOME": str(home)}
        self._home = home

    async def types(self, *options: str, fail: str = "", name: str = "new", **env: str) -> str:
        """Output of the command; its end is in ``status``."""
        env = {**self._env, **({"FAILPOINT": fail} if fail else {}), **env}
        verb = "repartition", "--to", "3", "--namespace", name
        done: subprocess.CompletedProcess[str] = await asyncio.to_thread(
            run, "crawlstream_cli", *verb, *options, env=env, folder=self._home, timeout_s=60
        )
        self.status = done.returncode
        return done.stdout + done.stderr

    def frontiers(self, partitions: int, name: str) -> Frontiers:
        """Frontiers that exist."""
        return frontiers_in(self.redis, partitions, name)

    async def all_keys(self) -> Mapping[Any, Any]:
        """Everything in Redis."""
        return {key: await self.redis.dump(key) for key in await self.redis.keys("*")}


@pytest.fixture
def cluster(
    servers: Servers, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> MonitorCluster:
    """The servers; the frontier is called as usual."""
    home = tmp_path_factory.mktemp("cut_off")
    more = {"CRAWLSTREAM_NAMESPACE": "cs"}
    return MonitorCluster(servers, name=named_after(request.path), home=home, more=more)


@pytest.fixture
async def person(
    cluster: MonitorCluster, redis_server: RunningServer, tmp_path: Path
) -> AsyncIterator[Person]:
    """A frontier of one partition, with nothing in progress."""
    async with Redis(host="127.0.0.1", port=redis_server.port) as redis:
        await redis.flushall()
        await filled(await open_bench(redis))
        yield Person(cluster, redis, tmp_path)


async def filled(bench: Bench) -> None:
    """Some hundred pages wait, and some are done; another crawl has ended."""
    await bench.feed.seeds("ended.example/", crawl=ENDED)
    await bench.worker.settle(*await bench.worker.lease())
    await bench.advance(GRACE_MS + 1)
    await bench.tend()
    await bench.feed.seeds(*(f"{host}/" for host in HOSTS))
    for lease in await bench.worker.lease(10):
        await bench.worker.settle(lease, links=[links(host, range(8)) for host in HOSTS[:20]])
    await bench.owed()


async def test_a_move_goes_on_wherever_it_was_killed(
    person: Person, cluster: MonitorCluster
) -> None:
    """Continues a killed move by the same command; everything is there once."""
    old = person.frontiers(1, "cs")
    waiting, seen, ledgers = await waiting_in(old), await seen_in(old), await ledgers_in(old)
    for step in STEPS:
        told = await person.types(fail=f"repartition_{step}:kill")
        assert person.status == -9, told
    assert "moved already" in await person.types()
    assert person.status == 0
    new = person.frontiers(3, "new")
    assert await waiting_in(new) == waiting
    assert await seen_in(new) == seen
    assert await ledgers_in(new) == ledgers
    assert await waiting_in(old) == waiting
    await homes_know_what_has_ended(cluster, new)
    told = await person.types("--forget")
    assert person.status == 0, told
    assert [*await person.redis.keys("{cs0}*")] == [b"{cs0}moved"]
    assert await waiting_in(new) == waiting


async def homes_know_what_has_ended(cluster: MonitorCluster, new: Frontiers) -> None:
    """Also one that loses all its data: seeds of what had ended before are not crawled again."""
    values = await asyncio.to_thread(cluster.read_all, cluster.topics.runs)
    marks = run_marks.surviving(value for value in values if b'"home"' in value)
    ends = {mark for mark in map(_ending, marks) if mark}
    assert ends == {(ENDED, 1, ("topic:0", 41))}
    home = new.coordinator(ENDED)
    await home.scripts.redis.delete(home.scripts.keys.meta(), home.scripts.keys.tag + "reg")
    await create_frontier(home.scripts, Layout(partitions=3))
    epoch = await home.contexts.epoch()
    await home.coordinator.restore(epoch, [mark for mark in marks if mark.crawl == ENDED])
    feed = Feed(home)
    seed = feed.seed("ended.example/", crawl=ENDED)
    assert (await home.coordinator.enroll(feed.batch(seed))).stamps[0].generation is None


def _ending(mark: CoordinatorMark) -> tuple[CrawlKey, int, tuple[str, int]] | None:
    if mark.crawl is None:
        return None
    return mark.crawl, mark.run, next(iter(mark.positions.items()))


async def test_a_dry_run_changes_nothing(person: Person) -> None:
    """It says what there is, and how long that takes."""
    before = await person.all_keys()
    told = await person.types("--dry-run")
    assert person.status == 0, told
    assert await person.all_keys() == before
    assert "2 crawls with 41 domains, 190 waiting pages" in " ".join(told.split())
    assert "201 URLs seen" in told


async def test_what_was_given_up_goes_on(person: Person) -> None:
    """The old frontier is as it was, and nothing is left of the new one."""
    waiting = await waiting_in(person.frontiers(1, "cs"))
    await person.types(fail="repartition_copied:kill")
    told = await person.types("--cancel")
    assert person.status == 0, told
    assert await waiting_in(person.frontiers(1, "cs")) == waiting
    assert not await person.redis.keys("{new*")
    assert await person.redis.exists(FrontierKeys("cs").meta())


async def test_what_is_in_the_way_is_said(person: Person) -> None:
    """Servers that are not empty, or do not answer; processes that run; the old place."""
    told = await person.types(name="cs")
    assert "in the place of the old one" in told
    assert person.status == 2
    told = await person.types("--redis", "127.0.0.1:1")
    assert "does not answer" in told
    assert person.status == 1
    process = Process(kind="rest")
    await Heartbeat(person.redis, FrontierKeys("cs"), process).join()
    told = await person.types("--wait", "0")
    assert f"still running: {process.name}" in told
    assert person.status == 1
    told = await person.types(CRAWLSTREAM_PARTITIONS="2")
    assert "has 1 partition(s), but this process is configured for 2" in told
    assert person.status == 2
    await open_bench(person.redis, keys=FrontierKeys("new"))
    told = await person.types()
    assert "are not empty" in told
    assert person.status == 2


async def test_full_servers_are_no_obstacle_and_no_target(person: Person) -> None:
    """A full frontier can be moved away; if there is no room, that is said, and nothing is lost."""
    waiting = await waiting_in(person.frontiers(1, "cs"))
    await person.redis.config_set("maxmemory", "1mb")
    try:
        told = await person.types()
    finally:
        await person.redis.config_set("maxmemory", "0")
    assert "the new servers are full" in told
    assert person.status == 1
    told = await person.types()
    assert person.status == 0, told
    assert await waiting_in(person.frontiers(3, "new")) == waiting
