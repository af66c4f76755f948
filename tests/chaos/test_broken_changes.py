"""Changes of pages on the topic of events, while pipelines and their database are killed."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest

from crawlstream_chaos.processes import RunningServer
from crawlstream_chaos.stores.postgres import RunningPostgres
from support.bus.values import values_of
from support.pipelines.cluster import PipelineCluster
from support.pipelines.results import record
from support.waiting import WaitUntil

PAGES = 30
BEGAN_S = 1_795_251_154
GROUPS = (b"even", b"odd")


class Site:
    """Pages of which a different third changes from one visit to the next, and all that is said."""

    def __init__(self, cluster: PipelineCluster) -> None:
        self._cluster = cluster
        self._visits = 0
        self.changes: set[tuple[str, ...]] = set()
        """Page and minute of each change, and the lines that it removes and adds."""

    def visit(self) -> None:
        """Feed the results of all pages, each fifth one twice; those of a page stay in order."""
        at = self._visits
        for parity, group in enumerate(GROUPS):
            values = []
            for page in range(parity, PAGES, 2):
                values += [self._result(page, at)] * (2 if page % 5 == 0 else 1)
                now, before = self._version(page, at), self._version(page, at - 1)
                if at == 0 or now != before:
                    removed = "" if at == 0 else _text(before)
                    self.changes.add((_url(page), f"{at:02}", removed, _text(now)))
            self._cluster.feed(values, key=group)
        self._visits += 1

    def _version(self, page: int, at: int) -> int:
        return (page + at) // 3

    def _result(self, page: int, at: int) -> bytes:
        body = f"<p>page {page}<p>{_text(self._version(page, at))}".encode()
        url, seen_at = _url(page), float(BEGAN_S + 60 * at)
        return record(100 * at + page, url=url, response_url=url, timestamp=seen_at, body=body)

    def told(self) -> Sequence[bytes]:
        """Each event of the topic that is about a change."""
        values = values_of(self._cluster.hosts, self._cluster.topics.events)
        return [value for value in values if b'"page_changed"' in value]


def _url(page: int) -> str:
    return f"http://example.com/{page}"


def _text(version: int) -> str:
    return f"version {version}"


def _change(value: bytes) -> tuple[str, ...]:
    """Page of an event, the minute of its visit, and the lines of its diff."""
    event = orjson.loads(value)
    minute = (int(event["at"][14:16]) - 52) % 60
    assert event["change"] == ("changed" if minute else "new")
    where = event["url"], f"{minute:02}"
    if event["diff"] is None:
        return *where, "", _text(int(event["url"].rpartition("/")[2]) // 3)
    lines = event["diff"]["text"].splitlines()
    removed, added = ([line[1:] for line in lines if line[0] == mark] for mark in "-+")
    return *where, *removed, *added


@pytest.fixture
async def ground(
    kafka_server: RunningServer, redis_server: RunningServer, fresh_name: str, tmp_path: Path
) -> PipelineCluster:
    """Topics and a folder of this test's own."""
    cluster = PipelineCluster(kafka_server, redis_server, prefix=fresh_name, home=tmp_path)
    await cluster.make_topics()
    return cluster


async def test_each_change_is_told_once_whoever_dies(
    ground: PipelineCluster,
    postgres_server: RunningPostgres,
    fresh_name: str,
    wait_until: WaitUntil,
) -> None:
    """A pipeline is killed as it writes, before and after it publishes, and then its database.

    Repeated events are equal, byte by byte; no change is missing, and none is made up. Each diff
    begins with the text at which the diff before it ends.
    """
    url = postgres_server.make_database(fresh_name)
    options = 'signature = "body"\nchanges = {events = true, diff = "lines"}'
    stages = 'workers = 0\nstage = [{use = "markdown"}]'
    ground.describe_sink(f'kind = "pages"\nurl = "{url}"\n{options}', stages)
    site = Site(ground)
    for step in ("after_changes:kill", "in_write:kill:2", "before_changes:kill"):
        site.visit()
        with (process := ground.process(step.partition(":")[0], FAILPOINT=step)).running():
            assert process.wait() == -signal.SIGKILL
    site.visit()
    one, other = ground.process("one"), ground.process("other")
    with one.running(), other.running():
        before = len(site.told())
        await wait_until(lambda: len(site.told()) > before, every_s=0.2)
        postgres_server.signal(signal.SIGKILL)
        postgres_server.wait()
        site.visit()
        postgres_server.start()
        await wait_until(lambda: len(set(site.told())) >= len(site.changes), every_s=0.5)
        for process in (one, other):
            process.signal(signal.SIGTERM)
            assert process.wait() == 0
    told = site.told()
    assert len(told) > len(set(told)), "nothing was published again"
    assert sorted(map(_change, set(told))) == sorted(site.changes)
