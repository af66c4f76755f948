"""Following a crawl: when a client may stop reading."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import orjson
import pytest

from crawlstream.boot.settings import load_settings
from crawlstream.bus.records import Record
from crawlstream.model.crawl import CrawlKey
from crawlstream_cli.common import follow
from crawlstream_cli.common.follow import Follower

CRAWL = CrawlKey("link", "app", "job")
FAILED = {
    "event": "page_failed",
    "id": "f",
    "url": "http://f/",
    "reason": "item_error",
    "detail": "TypeError: dict",
}


class Topics:
    """Topics of one partition each, whose readers see all that is on them."""

    def __init__(self) -> None:
        self.values: dict[str, list[bytes]] = {"crawled_firehose": [], "events": []}

    def add(self, name: str, **fields: object) -> None:
        """Append a record about the crawl."""
        record = {"appid": CRAWL.appid, "crawlid": CRAWL.crawlid, **fields}
        self.values[name].append(orjson.dumps(record))

    async def read(
        self, _hosts: object, topic: str, *, offsets: Mapping[int, int], follow: bool
    ) -> AsyncIterator[Record]:
        """In place of ``read_topic``."""
        at = offsets[0]
        values = self.values.get(topic.removeprefix("demo."), [])
        while follow or at < len(values):
            if at < len(values):
                yield Record(topic, 0, at, 0, None, values[at])
                at += 1
            await asyncio.sleep(0)


async def followed(topics: Topics, monkeypatch: pytest.MonkeyPatch, **how: Any) -> Follower:
    """A crawl that is followed to its end."""

    async def ends(_settings: object, *names: str) -> list[Mapping[int, int]]:
        return [{0: 0} for _ in names]

    async def send(*_: Any) -> None:
        """No monitor is there to take it."""

    monkeypatch.setattr(follow, "read_topic", topics.read)
    monkeypatch.setattr(follow, "ends_of", ends)
    monkeypatch.setattr(follow, "send", send)
    follower = Follower(load_settings(), CRAWL, [{}], **{"on_result": lambda *_: None, **how})
    async with asyncio.timeout(5):
        await follower.run()
    return follower


async def test_an_ending_is_waited_out_to_the_last_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results may be read later than the ending that counts them; repeats count once."""
    topics = Topics()
    topics.add("events", event="crawl_finished", counters={"done": 2, "failed": 0})
    for name in ("a", "a", "b"):
        topics.add("crawled_firehose", id=name, url=f"http://{name}/", status_code=200, body_size=1)
    progress = (await followed(topics, monkeypatch)).progress
    assert (progress.results, progress.silent) == (2, 0)


async def test_archives_have_each_requisite_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requisites do not count as pages; those that are read after the ending are not lost."""
    topics, got = Topics(), []
    topics.values["requisites"] = []
    topics.add("events", event="crawl_finished", counters={"done": 1, "failed": 0})
    topics.add("crawled_firehose", id="a", url="http://a/", status_code=200, body_size=1)
    for name in ("r", "s", "r"):
        topics.add("requisites", id=name, kind="requisite")
    how = {"on_result": lambda _, value: got.append(value["id"]), "with_requisites": True}
    progress = (await followed(topics, monkeypatch, **how)).progress
    assert (progress.results, progress.requisites, sorted(got)) == (1, 2, ["a", "r", "s"])
    assert (await followed(topics, monkeypatch)).progress.requisites == 0


async def test_an_ending_is_waited_out_to_the_last_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events of other partitions than the ending's may be read after it."""
    topics = Topics()
    topics.add("events", event="crawl_finished", counters={"done": 1, "failed": 2})
    for name in ("f", "f", "g"):
        topics.add("events", **FAILED | {"id": name})
    topics.add("crawled_firehose", id="a", url="http://a/", status_code=200, body_size=1)
    progress = (await followed(topics, monkeypatch)).progress
    assert (progress.failed.total(), progress.untold) == (2, 0)


async def test_pages_without_a_record_are_told_rather_than_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A spider may leave its items to pipelines of its own; what failed says what was raised."""
    topics = Topics()
    topics.add("crawled_firehose", id="a", url="http://a/", status_code=200, body_size=1)
    topics.add("events", **FAILED)
    topics.add("events", event="crawl_finished", counters={"done": 4, "failed": 1})
    progress = (await followed(topics, monkeypatch)).progress
    assert (progress.results, progress.silent) == (1, 3)
    assert progress.details == {"item_error": "TypeError: dict"}
    assert progress.first_failed == {"http://f/": "item_error"}
