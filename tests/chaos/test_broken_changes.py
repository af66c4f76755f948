"""Changes of pages on the topic of events, while pipelines and their database are killed."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from crawlstream_chaos.processes import RunningServer
from crawlstream_chaos.stores.postgres import RunningPostgres
from support.bus.values import values_of
from support.pipelines.cluster import PipelineCluster
from support.pipelines.results import record
from support.receivers import Receiver, web_receiver
from support.waiting import WaitUntil

PAGES = 30
BEGAN_S = 1_795_251_154
GROUPS = (b"even", b"odd")
SIGNED_BY = "a-secret-of-some-length"
STEPS = (
    *("after_changes:kill", "in_write:kill:2", "before_changes:kill"),
    *("before_webhook:kill", "after_webhook:kill:5"),
)


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


def _place(event: Mapping[str, Any]) -> tuple[str, str]:
    return event["url"], event["at"]


def posted(receiver: Receiver) -> Mapping[str, Mapping[str, Any]]:
    """Return the events that a webhook has taken, by their ids, in the order of the first posts.

    All posts are signed, repetitions have equal bodies, and events of a page come in their order.
    """
    bodies: dict[str, bytes] = {}
    for headers, body in receiver.messages:
        name = headers["Webhook-Id"]
        signed = f"{name}.{headers['Webhook-Timestamp']}.".encode() + body
        digest = hmac.digest(SIGNED_BY.encode(), signed, hashlib.sha256)
        assert headers["Webhook-Signature"] == f"v1,{base64.b64encode(digest).decode()}"
        assert headers["Content-Type"] == "application/cloudevents+json"
        assert bodies.setdefault(name, body) == body
    told = {name: orjson.loads(body) for name, body in bodies.items()}
    latest: dict[str, str] = {}
    for name, each in told.items():
        assert each["id"] == f"page_changed:{name}"
        url, at = _place(each["data"])
        assert latest.get(url, "") < at
        latest[url] = at
    return {name: each["data"] for name, each in told.items()}


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A webhook."""
    async with web_receiver() as receiver:
        yield receiver


@pytest.fixture
async def ground(
    kafka_server: RunningServer, redis_server: RunningServer, fresh_name: str, tmp_path: Path
) -> PipelineCluster:
    """Topics and a folder of this test's own."""
    cluster = PipelineCluster(kafka_server, redis_server, prefix=fresh_name, home=tmp_path)
    cluster.env["CRAWLSTREAM_NOTIFY_NETWORKS"] = "127.0.0.0/8"
    await cluster.make_topics()
    return cluster


async def test_each_change_is_told_once_whoever_dies(
    ground: PipelineCluster,
    receiver: Receiver,
    postgres_server: RunningPostgres,
    fresh_name: str,
    wait_until: WaitUntil,
) -> None:
    """A pipeline is killed as it writes, before and after it publishes, and then its database.

    Repeated events are equal, byte by byte; no change is missing, and none is made up. Each diff
    begins with the text at which the diff before it ends. A webhook that refuses, and is away for a
    time, gets each event as well, those of a page in their order; the others do not wait for it.
    """
    url = postgres_server.make_database(fresh_name)
    hook = f'webhook = "http://127.0.0.1:{receiver.port}/changes", secret = "{SIGNED_BY}"'
    options = f'signature = "body"\nchanges = {{events = true, diff = "lines", {hook}}}'
    stages = 'workers = 0\nstage = [{use = "markdown"}]'
    ground.describe_sink(f'kind = "pages"\nurl = "{url}"\n{options}', stages)
    site = Site(ground)
    receiver.refusals, receiver.refusal = 3, "503 Away"
    for step in STEPS:
        site.visit()
        with (process := ground.process(step.partition(":")[0], FAILPOINT=step)).running():
            assert await asyncio.to_thread(process.wait) == -signal.SIGKILL
    receiver.refusals = sys.maxsize
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
        assert len(posted(receiver)) < len(site.changes)
        receiver.refusals = 0
        await wait_until(lambda: len(posted(receiver)) >= len(site.changes), every_s=0.5)
        for process in (one, other):
            process.signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait) == 0
    told = site.told()
    assert len(told) > len(set(told)), "nothing was published again"
    assert sorted(map(_change, set(told))) == sorted(site.changes)
    assert len(receiver.messages) > len(posted(receiver)), "nothing was posted again"
    assert sorted(posted(receiver).values(), key=_place) == sorted(
        map(orjson.loads, set(told)), key=_place
    )
