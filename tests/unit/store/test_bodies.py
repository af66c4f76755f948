"""The body store, and what is published of pages that are too large for their record."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import orjson
import pytest

from crawling.publish import publisher as publish
from crawling.publish.publisher import GivenUp, Publisher
from crawlstream.boot.settings import load_settings
from crawlstream.bus.records import Out, RecordTooLarge
from crawlstream.errors import ConfigError
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.result import CrawlResult
from crawlstream.store.bodies import BodyStore
from crawlstream.store.store import StoreUnavailable
from support.waiting import WaitUntil

LONG = b"<p>" + b"x" * 5000
LIMIT = 1024

PAGE = CrawlResult(
    id="0" * 32,
    crawl=CrawlKey("link", "app", "job"),
    run=1,
    attrs=None,
    url="http://a.example/",
    response_url="http://a.example/",
    status_code=200,
    request_headers={},
    response_headers={},
    body=LONG,
    encoding="utf-8",
    links=[],
    timestamp=0,
    depth=0,
    seed_url="http://a.example/",
    attempt=1,
    latency_ms=1,
    ip=None,
)


class Topic:
    """A stand-in for Kafka: everything is acknowledged, and stored."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    async def send(self, records: Sequence[Out]) -> None:
        """Take records over."""
        self.records += [orjson.loads(record.value) for record in records]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request without an answer is sent again at once."""
    monkeypatch.setattr(publish, "_FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(publish, "_LONGEST_PAUSE_S", 0.001)


def publisher(topic: Topic, store: str | None) -> Publisher:
    """A publisher that cuts bodies early."""
    settings = load_settings(max_body_bytes=LIMIT, body_store=store)
    return Publisher(topic, settings)  # type: ignore[arg-type]


def whole(record: dict[str, Any]) -> bytes:
    """The body that a record refers to, as any reader gets it."""
    with fsspec.open(record["body_ref"], "rb") as file:
        body = file.read()
    assert isinstance(body, bytes)
    return body


@pytest.mark.parametrize("kind", ["file", "memory"])
async def test_a_body_that_is_cut_can_be_had_whole(kind: str, tmp_path: Path) -> None:
    """The record has its beginning and where the rest is, under a name that is its hash."""
    topic = Topic()
    store = f"{kind}://{tmp_path}/bodies/"
    for _ in range(2):
        await publisher(topic, store).result(PAGE)
    first, again = topic.records
    assert first == again
    assert (first["body_truncated"], first["body_size"]) == (True, len(LONG))
    assert first["body"] == LONG[:LIMIT].decode()
    assert whole(first) == LONG
    assert first["body_ref"].endswith("/" + hashlib.sha256(LONG).hexdigest())
    found = fsspec.filesystem(kind).find(f"{tmp_path}/bodies")
    assert len(found) == 1, "a repeat is the same object, and nothing unfinished stays"


async def test_a_body_that_fits_is_not_stored(tmp_path: Path) -> None:
    """Stores no body that fits, and nothing without a store."""
    topic = Topic()
    await publisher(topic, f"file://{tmp_path}/bodies").result(replace(PAGE, body=b"<p>"))
    await publisher(topic, None).result(PAGE)
    assert not (tmp_path / "bodies").exists()
    assert ["body_ref" in record for record in topic.records] == [False, False]
    assert topic.records[1]["body_truncated"] is True


class SmallTopic(Topic):
    """A stand-in for a Kafka that refuses records over 30 KB, and any of a text that it bans."""

    async def send(self, records: Sequence[Out]) -> None:
        """Take over those that are small enough."""
        if any(b"banned" in record.value for record in records):
            raise ValueError("banned")
        large = [record for record in records if len(record.value) > 30_000]
        await super().send([record for record in records if record not in large])
        if large:
            raise RecordTooLarge("too large", large)


async def test_requisites_are_published_together_and_none_takes_others_along(
    tmp_path: Path,
) -> None:
    """A body that has to be cut is stored first, a record that is refused is cut; others go on."""
    topic, store = SmallTopic(), f"file://{tmp_path}/bodies"
    settings = load_settings(max_body_bytes=60_000, body_store=store)
    sizes = {"1": 10, "2": 50_000, "3": 70_000, "4": 20}
    some = [replace(PAGE, id=name, body=b"x" * size) for name, size in sizes.items()]
    publishing = Publisher(topic, settings)  # type: ignore[arg-type]
    assert await publishing.requisites(some) == [None] * 4
    records = {record["id"]: record for record in topic.records}
    assert len(topic.records) == len(sizes)
    assert [records[name].get("body_truncated", False) for name in sizes] == [
        False,
        True,
        True,
        False,
    ]
    assert {len(whole(records[name])) for name in "23"} == {50_000, 70_000}
    banned = replace(PAGE, id="5", body=b"banned")
    none, error = await publishing.requisites([some[0], banned])
    assert (none, str(error)) == (None, "banned")


async def test_a_screenshot_is_in_the_store_or_in_the_record(tmp_path: Path) -> None:
    """Stores a picture before its record, which names it; without a store, the record has it."""
    page = replace(PAGE, body=b"", screenshot={"width": 1}, screenshot_body=b"\x89PNG")
    topic = Topic()
    await publisher(topic, f"file://{tmp_path}/bodies").result(page)
    await publisher(topic, None).result(page)
    stored, bare = topic.records
    ref = stored["screenshot"].pop("ref")
    with fsspec.open(ref, "rb") as file:
        assert file.read() == page.screenshot_body
    assert ref.endswith("/" + hashlib.sha256(page.screenshot_body or b"").hexdigest())
    assert stored["screenshot"] == bare["screenshot"] == {"width": 1}
    assert ("screenshot_body" in stored, bare["screenshot_body"]) == (False, "iVBORw==")


async def test_a_body_that_only_its_record_cannot_hold_is_stored_too(tmp_path: Path) -> None:
    """Text may become larger as JSON than a record may be."""
    topic = Topic()
    settings = load_settings(body_store=f"file://{tmp_path}", max_record_bytes=1 << 20)
    body = b"\x01" * 400_000
    await Publisher(topic, settings).result(replace(PAGE, body=body))  # type: ignore[arg-type]
    assert topic.records[0]["body_truncated"] is True
    assert whole(topic.records[0]) == body


async def test_a_page_waits_for_a_store_that_cannot_be_reached(
    tmp_path: Path, wait_until: WaitUntil
) -> None:
    """Publishes and leases nothing while the store is unavailable, and then continues."""
    topic = Topic()
    (tmp_path / "bodies").write_text("a file where the folder should be")
    waiting = publisher(topic, f"file://{tmp_path}/bodies")
    under_way = asyncio.create_task(waiting.result(PAGE))
    await wait_until(lambda: waiting.waits_for.startswith("body_store: "))
    assert not topic.records
    (tmp_path / "bodies").unlink()
    await under_way
    assert waiting.waits_for == ""
    assert whole(topic.records[0]) == LONG


async def test_a_worker_that_ends_gives_up_on_a_dead_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its page goes back; a record without its body is never sent."""
    monkeypatch.setattr(publish, "_HURRY_S", 0)
    topic = Topic()
    (tmp_path / "bodies").write_text("in the way")
    ending = publisher(topic, f"file://{tmp_path}/bodies")
    ending.hurry()
    with pytest.raises(GivenUp, match="body store"):
        await ending.result(PAGE)
    assert not topic.records


async def test_what_a_store_raises_is_taken_for_a_fault_that_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every store has errors of its own."""
    store = BodyStore.at("memory://bodies")

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("an error of its own")

    monkeypatch.setattr(store._store._filesystem, "pipe_file", refuse)
    with pytest.raises(StoreUnavailable, match="an error of its own"):
        await store.keep(LONG)


@pytest.mark.parametrize("url", ["nowhere://x/", "s3://bucket/folder"])
def test_a_store_that_nobody_can_write_to_is_refused_at_once(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown scheme, or one whose package is not installed, is an error of configuration."""
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(ConfigError, match="CRAWLSTREAM_BODY_STORE"):
        BodyStore.at(url)
