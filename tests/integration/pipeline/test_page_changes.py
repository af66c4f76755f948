"""Changes of pages in real databases: each is an event once, and is published by one process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from pathlib import Path

import orjson
import pytest
import structlog

from crawlstream.boot import signed_post
from crawlstream.boot.liveness import Liveness
from crawlstream.bus.connect import Kafka
from crawlstream.bus.factory import make_sink
from crawlstream.bus.topics import create_missing, ensure_topics
from crawlstream.keys import Topics
from crawlstream_chaos.processes import RunningServer
from pipeline_service.memory.line_diff import LineDiff, diff_lines
from pipeline_service.memory.seen import key_of
from pipeline_service.memory.sql import (
    change_outbox,
    change_store,
    change_texts,
    webhook_queue,
    webhook_store,
)
from pipeline_service.records import undelivered_records
from pipeline_service.records.judging import judge
from support.bus.values import values_of
from support.pipelines import writer
from support.pipelines.changing import BEGAN, SIGNED_BY, URL, Ground, hook, page
from support.pipelines.results import page_id, record
from support.pipelines.targets import select
from support.receivers import web_receiver
from support.waiting import WaitUntil


async def test_each_change_is_an_event_once(ground: Ground) -> None:
    """A record that is read again, in another partition or by a process that was frozen, adds none.

    Nor does a page that has not changed.
    """
    asked = ground.pipeline
    first = [page(1, 0), page(2, 1), page(3, 2, b"two")]
    async with writer.sink_of(asked, ground.folder / "frozen") as frozen:
        await frozen.position(writer.TOPIC, 0)
        await ground.learn(*first)
        batch = writer.batch_of(first)
        assert await frozen.write(batch, judge(asked, batch), Liveness("write")) == len(first)
    await ground.learn(*reversed(first), partition=1)
    assert [each["change"] for each in ground.waiting()] == ["new", "changed"]
    new, changed = ground.waiting()
    assert (new["change"], new["before"], new["signature"]["from"]) == ("new", None, None)
    assert new["signature"]["to"] == changed["signature"]["from"]
    assert changed["signature"]["to"] not in (None, changed["signature"]["from"])
    del changed["signature"]
    assert time.time() - changed.pop("server_time") < 600
    assert changed == {
        "event": "page_changed",
        "appid": "app",
        "memory": "p",
        "url": URL,
        "change": "changed",
        "id": page_id(3),
        "before": "2026-11-21T09:52:34.000000Z",
        "at": "2026-11-21T10:52:34.000000Z",
        "visits": 2,
        "changes": 1,
        "result": {"topic": "t", "partition": 0, "offset": 2},
    }


def test_memories_with_long_names_share_a_database(tmp_path: Path) -> None:
    """Their tables and indexes do not collide, however late their names differ."""
    with contextlib.closing(Ground(f"sqlite:///{tmp_path}/news.db", tmp_path)) as ground:
        ground.more = f', webhook = "https://a.test/", secret = "{SIGNED_BY}"'
        for last in "ab":
            ground.table = "a_table_whose_name_has_fifty_six_characters_in_all____" + last
            ground.store().claim("one")
        of_due = "select name as it from sqlite_master where type = 'index' and name like '%due'"
        assert len(select(ground.url, of_due)) == 2


async def test_diffs_of_a_page_follow_each_other(ground: Ground) -> None:
    """Each begins with the text of the event before it, whatever came in between.

    A page that comes back has a diff, too; one that is gone, or has no text, has none.
    """
    await ground.learn(page(1, 0, b"<p>one"))
    assert "diff" not in ground.waiting()[0]
    ground.more = ', diff = "lines"'
    await ground.learn(page(2, 1, b"<p>one"))
    text = "".join(f"<p>{n}" for n in range(10))
    await ground.learn(
        page(3, 2, b"<p>two"),
        page(4, 3, text.encode()),
        page(4, 3, text.encode()),
        record(5, url=URL, response_url=URL, timestamp=BEGAN + 4 * 3_600, status_code=404),
        record(6, url=URL, response_url=URL, timestamp=BEGAN + 5 * 3_600, status_code=404),
    )
    await ground.learn(page(7, 6, text.encode()))
    await ground.learn(page(8, 7, text.replace("7", "&eacute;").encode()), partition=1)
    _, two, digits, gone, back, changed = [each.get("diff") for each in ground.waiting()]
    lines = {"unit": "lines", "added": 1, "removed": 1, "truncated": False}
    assert two == {**lines, "text": "@@ -1,1 +1,1 @@\n-one\n+two\n"}
    assert (digits["added"], digits["removed"]) == (19, 1)
    assert gone is None
    assert back == {**lines, "added": 0, "removed": 0, "text": ""}
    assert changed["text"].splitlines()[4:6] == ["-7", "+é"]


async def test_a_diff_that_another_process_has_overtaken_is_made_again(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one compares, another publishes a change in between: both diffs follow each other."""
    ground.more = ', diff = "lines"'
    await ground.learn(page(1, 0, b"<p>one"))
    compared = []

    def compare(before: str, after: str, *, most_steps: int) -> LineDiff:
        compared.append((before.strip(), after.strip()))
        if len(compared) == 1:
            asyncio.run(ground.learn(page(2, 1, b"<p>two"), partition=1))
        return diff_lines(before, after, most_steps=most_steps)

    monkeypatch.setattr(change_texts, "diff_lines", compare)
    await ground.learn(page(3, 2, b"<p>three"))
    assert compared == [("one", "three"), ("one", "two"), ("two", "three")]
    texts = [each["diff"] and each["diff"]["text"] for each in ground.waiting()]
    head = "@@ -1,1 +1,1 @@\n"
    assert texts == [None, f"{head}-one\n+two\n", f"{head}-two\n+three\n"]


async def test_a_webhook_gets_the_changes_of_a_page_in_their_order(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change that is refused, or not answered, delays those of its page and no others.

    It is sent again until it is taken.
    """
    monkeypatch.setattr(webhook_store, "_FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(signed_post, "TIMEOUT_S", 0.3)
    async with web_receiver() as receiver:
        ground.more = hook(receiver)
        sender = ground.sender(make_sink(Kafka(["127.0.0.1:1"])))
        one, other = URL, URL + "/other"
        await ground.learn(page(1, 0, url=one), page(2, 1, b"two", url=one))
        await ground.learn(page(3, 2, url=other), page(4, 3, b"two", url=other), partition=1)
        receiver.refused, receiver.refusal = f'"{one}"', "400 Never"
        for _ in range(4):
            assert not await sender.step()
        assert [each["data"]["url"] for each in receiver.told()] == [other, other]
        assert [(each["tries"], each["why"]) for each in ground.unsent()] == [
            (4, "answered with status 400"),
            (0, ""),
        ]
        receiver.refused, receiver.is_silent = "", True
        await sender.drain()
        assert ground.unsent()[0]["why"] == "no answer within 0.3 s"
        receiver.is_silent = False
        while not await sender.step():
            pass
    assert ground.unsent() == []
    told = [each["data"] for each in receiver.told()[2:]]
    assert [(each["url"], each["change"]) for each in told] == [(one, "new"), (one, "changed")]
    waiting = ground.waiting()
    assert [each["data"] in waiting for each in receiver.told()] == [True] * 4


@pytest.mark.parametrize("ground", ["sqlite"], indirect=True)
async def test_nothing_internal_is_sent_to_and_old_changes_are_given_up(
    ground: Ground,
    kafka_server: RunningServer,
    fresh_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Gives up a change after a day, and the oldest if too many wait.

    They are on the topic of undelivered records, whole and with the reason. The secret is in no
    log.
    """
    monkeypatch.setattr(webhook_store, "_FIRST_PAUSE_S", 0.0)
    hosts, topics = f"127.0.0.1:{kafka_server.port}", Topics(fresh_name)
    kafka = Kafka([hosts])
    await ensure_topics(kafka, topics)
    async with web_receiver() as receiver, make_sink(kafka) as sink:
        ground.more = hook(receiver)
        sender = ground.sender(sink, allows="", prefix=fresh_name)
        await ground.learn(page(1, 0), page(2, 1, b"two"), page(3, 2, b"three"))
        with structlog.testing.capture_logs() as logs:
            assert not await sender.step()
            monkeypatch.setattr(webhook_queue, "MOST_WAITING", 2)
            await sender.step()
            select(ground.url, "update memory_unsent set since = '2020-01-01T00:00:00.000000Z'")
            await sender.step()
        assert await sender.step()
        assert receiver.tried == 0
    assert SIGNED_BY not in str(logs)
    values = values_of(hosts, topics.undelivered)
    told = sorted(map(undelivered_records.decode, values), key=lambda each: each.name)
    assert [each.rejection.raw for each in told] == [
        orjson.dumps(event) for event in ground.waiting()
    ]
    assert {(each.pipeline, each.rejection.reason) for each in told} == {("p", "webhook")}
    why = "127.0.0.1 is not a public address; CRAWLSTREAM_NOTIFY_NETWORKS allows internal addresses"
    assert [each.rejection.errors for each in told] == [
        [f"$: too many changes waited; {why}"],
        *[["$: not taken in time; there was no attempt"]] * 2,
    ]


@pytest.mark.parametrize("ground", ["sqlite"], indirect=True)
async def test_a_change_too_large_for_the_topic_is_given_up_without_its_bytes(
    ground: Ground, kafka_server: RunningServer, fresh_name: str
) -> None:
    """It does not stop the changes after it."""
    hosts, topic = f"127.0.0.1:{kafka_server.port}", Topics(fresh_name).undelivered
    shape = {**(kafka := Kafka([hosts])).shape.options(), "configs": {"max.message.bytes": "1000"}}
    create_missing(kafka, {topic: shape})
    async with web_receiver() as receiver, make_sink(kafka) as sink:
        ground.more = hook(receiver)
        sender = ground.sender(sink, prefix=fresh_name)
        await ground.learn(page(1, 0, url=f"{URL}/{os.urandom(900).hex()}"))
        select(ground.url, "update memory_unsent set since = '2020-01-01T00:00:00.000000Z'")
        await ground.learn(page(2, 1))
        await sender.drain()
        assert [each["data"]["url"] for each in receiver.told()] == [URL]
    (told,) = map(undelivered_records.decode, values_of(hosts, topic))
    assert told.rejection.raw is None
    assert told.rejection.errors == ["$: not taken in time; there was no attempt"]


async def test_one_process_publishes_and_another_takes_over(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It publishes equal bytes under equal keys, in the order of each page, and each only once."""
    await ground.learn(page(1, 0), page(2, 1, b"two"), page(3, 2, b"three"))
    first, second = ground.store(), ground.store()
    claim = first.claim("one")
    assert claim is not None
    key = key_of("app", URL)
    at = [round((BEGAN + 3_600 * hour) * 1e6) for hour in range(3)]
    assert [each for each, _ in claim] == [f"p:{key}:{each}" for each in at]
    assert second.claim("two") == ()
    assert first.claim("one") == claim
    monkeypatch.setattr(change_store, "TURN_S", -1.0)
    assert second.claim("two") == claim
    monkeypatch.undo()
    second.published([each for each, _ in claim[:2]])
    assert second.claim("two") == claim[2:]
    second.published([claim[2][0]])
    assert second.claim("two") is None
    assert first.claim("one") is None
    # A process that has published all returns its turn: another one does not wait for its end.
    await ground.learn(page(4, 3, b"four"))
    assert len(first.claim("one") or ()) == 1


@pytest.mark.parametrize("ground", ["sqlite"], indirect=True)
async def test_nothing_is_learnt_while_too_many_changes_wait(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, wait_until: WaitUntil
) -> None:
    """The pipeline waits, and no change is lost: its position moves when some are published."""
    monkeypatch.setattr(change_outbox, "MOST_WAITING", 2)
    await ground.learn(page(1, 0), page(2, 1, b"two"))
    learning = asyncio.create_task(ground.learn(page(3, 2, b"three")))
    await asyncio.sleep(0.5)
    assert not learning.done()
    assert len(ground.waiting()) == 2
    assert select(ground.url, "select changes as it from memory") == [{"it": 1}]
    store = ground.store()
    claim = await asyncio.to_thread(store.claim, "one")
    await asyncio.to_thread(store.published, [key for key, _ in claim or ()])
    await wait_until(learning.done)
    await learning
    assert [each["changes"] for each in ground.waiting()] == [2]
