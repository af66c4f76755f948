"""Outbox records are published once, whatever is stored next to them, however slow Kafka."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from prometheus_client import REGISTRY

from crawlstream.boot.liveness import Liveness
from crawlstream.bus.outbound import Outbound
from crawlstream.bus.records import NotAcknowledged, Out, RecordTooLarge
from crawlstream.keys import Topics
from crawlstream.stats.tally import Tally
from crawlstream.wire import rejects
from crawlstream.wire import replies as wire
from crawlstream_frontier.streams import TAKE_OVER_MS, Streams
from redis_monitor.outbox import OutboxPublisher
from support.frontier.bench import CRAWL, GRACE_MS, KEYS, Bench

pytest_plugins = ["support.frontier.fixtures"]

OTHER = replace(CRAWL, crawlid="other")
TOPICS = Topics("outbox")
ENDING = "crawl_finished"
MAX_REAPS = 20


class Verdicts:
    """Kafka as one sink sees it: each list of records gets the verdict that the test asks for."""

    def __init__(self, judge: Callable[[Sequence[Out]], Sequence[Out]] | None = None) -> None:
        """``judge`` takes what has come and answers what is acknowledged, or raises."""
        self.acknowledged: list[Out] = []
        self.sent: list[Sequence[Out]] = []
        self.slow_s = 0.0
        self._judge = judge or (lambda records: records)

    async def send(self, records: Sequence[Out]) -> None:
        """As ``KafkaSink.send``."""
        self.sent.append(records)
        await asyncio.sleep(self.slow_s)
        good = self._judge(records)
        self.acknowledged += good
        if len(good) < len(records):
            raise NotAcknowledged("no word of some", [r for r in records if r not in good])

    def events(self, name: str = "") -> list[dict[str, Any]]:
        """Events of a name, or all, each as often as it was acknowledged."""
        found = [json.loads(r.value) for r in self.acknowledged if r.topic == TOPICS.events]
        return [event for event in found if name in {"", event["event"]}]

    def rejected(self) -> list[Any]:
        """Records put aside."""
        return [rejects.decode(r.value) for r in self.acknowledged if r.topic == TOPICS.rejected]


def ledger(bench: Bench, sink: Verdicts, streams: Streams | None = None) -> OutboxPublisher:
    """The voice of one redis-monitor."""
    outbound = Outbound(sink, TOPICS)  # type: ignore[arg-type]
    tally = Tally(bench.redis, KEYS)
    reader = streams or bench.reader
    return OutboxPublisher(reader, outbound=outbound, tally=tally, liveness=Liveness("publish"))


def without_page(reason: str) -> float:
    """Replies that this process has counted under a reason."""
    name = "crawlstream_replies_without_page_total"
    return REGISTRY.get_sample_value(name, {"reason": reason}) or 0


async def give_up(bench: Bench) -> None:
    """The page at hand is reaped until it is given up; the other crawl ends meanwhile."""
    await bench.feed.seeds("b/1", crawl=OTHER)
    for lease in await bench.worker.lease(5):
        if lease.crawl == OTHER:
            await bench.worker.settle(lease)
    for _ in range(MAX_REAPS + 1):
        await bench.blame("w1", "")
        await bench.advance(61_000)
        await bench.worker.lease(5)
    await bench.advance(GRACE_MS)
    await bench.tend()


async def test_a_dead_letter_that_cannot_be_read_is_put_aside(bench: Bench) -> None:
    """Endings next to it are published; its bytes are kept with its reason."""
    seed = bench.feed.seed("a/1")
    await bench.feed.put(replace(seed, entry=b"\xff of the future"))
    await give_up(bench)
    sink = Verdicts()
    await ledger(bench, sink).step()
    assert await bench.redis.xlen(KEYS.outbox()) == 0
    assert [event["crawlid"] for event in sink.events(ENDING)] == ["other", CRAWL.crawlid]
    (aside,) = sink.rejected()
    assert (aside.reason, aside.raw[-14:]) == ("killed_worker", b" of the future")


async def test_a_dead_letter_that_no_topic_takes_is_cut(bench: Bench) -> None:
    """Its event and reason are published, no request for replay is; nothing is published twice."""

    def judge(records: Sequence[Out]) -> Sequence[Out]:
        large = [record for record in records if len(record.value) > 100_000]
        if large:
            sink.acknowledged += [record for record in records if record not in large]
            raise RecordTooLarge("too large", large)
        return records

    sink = Verdicts(judge)
    await bench.feed.put(bench.feed.seed("a/1", attrs={"x": "y" * 200_000}))
    await give_up(bench)
    await ledger(bench, sink).step()
    assert await bench.redis.xlen(KEYS.outbox()) == 0
    assert Counter(event["event"] for event in sink.events()) == {
        "crawl_started": 2,
        "page_failed": 1,
        ENDING: 2,
    }
    (letter,) = sink.rejected()
    assert (letter.reason, letter.raw) == ("killed_worker", None)
    assert "more than topic outbox.rejected accepts" in letter.errors[-1]


async def test_only_what_was_not_acknowledged_is_sent_again(bench: Bench) -> None:
    """Sends only unacknowledged records again, however few of a list Kafka takes."""
    await bench.feed.seeds("a/1")
    await bench.worker.crawl_all()
    await bench.advance(GRACE_MS)
    await bench.tend()
    sink = Verdicts(lambda records: records[:1])
    await ledger(bench, sink).step()
    assert [len(records) for records in sink.sent] == [4, 3, 2, 1]
    assert len(sink.events(ENDING)) == 1


async def test_no_other_monitor_tells_what_one_is_telling(bench: Bench) -> None:
    """A list that waits for a slow Kafka is not taken over while its monitor lives."""
    await bench.feed.seeds("a/1")
    await bench.worker.crawl_all()
    await bench.advance(GRACE_MS)
    await bench.tend()
    slow, quick = Verdicts(), Verdicts()
    slow.slow_s = TAKE_OVER_MS / 1000 + 1.5
    first = asyncio.create_task(ledger(bench, slow, Streams(bench.redis, KEYS, "one")).step())
    await asyncio.sleep(TAKE_OVER_MS / 1000 + 0.5)
    await ledger(bench, quick, Streams(bench.redis, KEYS, "two")).step()
    await first
    assert (len(slow.events(ENDING)), quick.sent) == (1, [])
    assert await bench.redis.xlen(KEYS.outbox()) == 0


async def test_an_ending_answers_the_clients_that_still_wait(bench: Bench) -> None:
    """Answers clients that still wait with the ending, each once."""
    waiting = {"answer": "page"}
    await bench.feed.seeds("a/1", uuid="u1", **waiting)
    (lease,) = await bench.worker.lease(5)
    await bench.worker.settle(lease, answered="u1")
    await bench.feed.seeds("a/2", uuid="u2", **waiting)
    await bench.feed.say("stop")
    await bench.advance(GRACE_MS)
    await bench.tend()
    sink, before = Verdicts(), without_page("stopped")
    await ledger(bench, sink).step()
    assert without_page("stopped") == before + 1
    told = [wire.decode_page(r.value) for r in sink.acknowledged if r.topic == TOPICS.outbound]
    replies = [(each.uuid, each.reason, each.crawl, each.run) for each in told if each]
    assert replies == [("u2", "stopped", CRAWL, 1)]


async def test_a_dead_letter_answers_the_client_that_waits(bench: Bench) -> None:
    """Answers with the reason of a dead letter, and counts it; the ending answers no other."""
    await bench.feed.seeds("a/1", uuid="u1", answer="page")
    await give_up(bench)
    sink, before = Verdicts(), without_page("killed_worker")
    await ledger(bench, sink).step()
    told = [wire.decode_page(r.value) for r in sink.acknowledged if r.topic == TOPICS.outbound]
    assert [(each.uuid, each.reason) for each in told if each] == [("u1", "killed_worker")]
    assert without_page("killed_worker") == before + 1
