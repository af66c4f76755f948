"""The order of effects: publish before Redis forgets, acknowledge before settling.

At each record that is sent the test looks at Redis: what a death at this moment would leave there.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from crawlstream.boot import liveness as waiting
from crawlstream.boot.liveness import Liveness
from crawlstream.bus.connect import Kafka
from crawlstream.bus.outbound import Outbound
from crawlstream.bus.records import Batch, Out, Record
from crawlstream.errors import KafkaUnavailable, RedisUnavailable
from crawlstream.keys import Topics
from crawlstream.model.effects import OutboxRecord, PendingAction
from crawlstream.model.request import RequestLimits
from crawlstream.plugins import Reply
from crawlstream.plugins.handlers import Router
from crawlstream.stats.tally import Tally
from crawlstream_frontier.positions import Positions
from kafka_monitor.intake_loop import IntakeLoop
from kafka_monitor.plugins.action_handler import ActionHandler
from kafka_monitor.plugins.scraper_handler import ScraperHandler
from kafka_monitor.poison import PoisonDetector
from kafka_monitor.recovery import Recovery
from kafka_monitor.rejections import RejectionPublisher
from kafka_monitor.request_intake import RequestIntake
from kafka_monitor.schedule_memory import ScheduleMemory
from redis_monitor import metrics
from redis_monitor.action_runner import ActionRunner
from redis_monitor.ledger_audit import check_ending
from redis_monitor.outbox import OutboxPublisher
from support.frontier.bench import CRAWL, KEYS, Bench, position_of

pytest_plugins = ["support.frontier.fixtures"]

TOPICS = Topics("order")
SEED = {"url": "http://a.example/", "appid": CRAWL.appid, "crawlid": CRAWL.crawlid}


class WatchedSink:
    """Takes records, after a look at Redis; says first that it is away as often as asked for."""

    def __init__(self, look: Callable[[], Awaitable[object]], unavailable: int = 0) -> None:
        self.seen: list[tuple[str, object]] = []
        """Topic of each record, and what the look answered then."""
        self._look = look
        self._unavailable = unavailable

    async def send(self, records: Sequence[Out]) -> None:
        """As ``Sink.send``."""
        looked = await self._look()
        self.seen += [(record.topic, looked) for record in records]
        if self._unavailable:
            self._unavailable -= 1
            raise KafkaUnavailable("no word of it")


class Source:
    """A consumer at which nothing arrives."""

    def pause(self) -> None:
        """As ``KafkaSource.pause``."""

    def resume(self) -> None:
        """As ``KafkaSource.resume``."""


@pytest.fixture(autouse=True)
def _without_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unavailable service is called again at once."""
    monkeypatch.setattr(waiting, "FIRST_PAUSE_S", 0.01)


class Monitor:
    """A kafka-monitor without its consumer."""

    def __init__(self, bench: Bench, sink: Any) -> None:
        positions = bench.frontier.positions
        rejects = RejectionPublisher(Outbound(sink, TOPICS))
        router = Router([ScraperHandler(), ActionHandler()], RequestLimits())
        self.recovery = recovery = Recovery(
            positions,
            sink,
            TOPICS,
            rejects=rejects,
            kafka=Kafka(()),
            group="g",
            schedules=ScheduleMemory(bench.frontier.schedules, Kafka(()), TOPICS),
        )
        self.intake = RequestIntake(
            bench.frontier.intake, router, recovery, PoisonDetector(positions)
        )
        self._loop = IntakeLoop(
            Source(),  # type: ignore[arg-type]
            self.intake,
            rejects,
            recovery=recovery,
            full=asyncio.Event(),
            tally=Tally(bench.redis, KEYS),
        )

    async def take(self, *requests: dict[str, Any] | bytes) -> None:
        """Let these requests take effect, from offset 0 on."""
        values = [r if isinstance(r, bytes) else json.dumps(r).encode() for r in requests]
        records = [
            Record(TOPICS.incoming, 0, offset, 1_700_000_000_000, None, value)
            for offset, value in enumerate(values)
        ]
        batch = Batch("topic", 0, 0, len(records), records)
        await self._loop._put_all(await self.intake.judge(batch))


async def test_what_is_rejected_is_told_before_its_position_has_passed(bench: Bench) -> None:
    """A death in between, or a Kafka that is away, has it told again, never forgotten."""
    kafka = WatchedSink(lambda: position_of(bench.frontier, "topic", 0), unavailable=2)
    await Monitor(bench, kafka).take(b"no request", SEED)
    assert kafka.seen == [(TOPICS.rejected, 0)] * 3
    assert await position_of(bench.frontier, "topic", 0) == 2
    assert (await bench.state()).queued == 1


async def test_what_the_frontier_refuses_is_told_before_it_is_noted_as_told(bench: Bench) -> None:
    """The next reader publishes it again until then."""
    kafka = WatchedSink(lambda: bench.frontier.positions.begin("topic", 0, 3), unavailable=1)
    capped = SEED | {"max_pages": 1}
    await Monitor(bench, kafka).take(capped, capped, capped)
    rejected = [looked for topic, looked in kafka.seen if topic == TOPICS.rejected]
    assert rejected == [1] * 4
    assert await bench.frontier.positions.begin("topic", 0, 3) == 3


async def test_kafka_remembers_a_stop_before_it_takes_effect(bench: Bench) -> None:
    """A Redis that is lost right after the confirmation."""
    kafka = WatchedSink(lambda: position_of(bench.frontier, "topic", 0))
    stop = {"uuid": "u", "action": "stop", "spiderid": CRAWL.spiderid}
    await Monitor(bench, kafka).take(stop | {"appid": CRAWL.appid, "crawlid": CRAWL.crawlid})
    assert kafka.seen == [(TOPICS.runs, 0)]
    assert await position_of(bench.frontier, "topic", 0) == 1


async def test_what_takes_effect_during_a_look_is_not_read_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Positions known from before it do not mean a Redis that has gone back."""
    monitor = Monitor(bench, WatchedSink(bench.clock))
    monitor.recovery._located[0] = "topic"
    monitor.recovery.note_reached(0, 0)
    known = Positions.known

    async def and_then_move(positions: Positions) -> Mapping[tuple[str, int], int]:
        found = await known(positions)
        await monitor.take(SEED)
        monitor.recovery.note_reached(0, 1)
        return found

    await bench.frontier.positions.begin("topic", 0, 0)
    monkeypatch.setattr(Positions, "known", and_then_move)
    assert await monitor.recovery.misplaced() == {}
    monkeypatch.undo()
    assert await monitor.recovery.misplaced() == {}
    monitor.recovery.note_reached(0, 2)
    assert await monitor.recovery.misplaced() == {0: "topic"}


class Asked:
    """An action that fails as often as scripted."""

    def __init__(self, fails: int = 0, error: type[Exception] = RedisUnavailable) -> None:
        self.fails = fails
        self._error = error

    async def answer(self, action: PendingAction) -> Reply:
        """Its reply."""
        if self.fails:
            self.fails -= 1
            raise self._error("not now")
        return Reply("app", b"{}")


def answers(bench: Bench, kafka: Any, action: Any) -> ActionRunner:
    """The action runner of one redis-monitor."""
    return ActionRunner(
        bench.reader,
        {"info": action},
        outbound=Outbound(kafka, TOPICS),
        tally=Tally(bench.redis, KEYS),
        liveness=Liveness("answer"),
    )


async def test_an_action_is_answered_before_it_is_forgotten(bench: Bench) -> None:
    """Kafka has the reply; who dies before leaves the action to another."""
    await bench.feed.say("info")
    kafka = WatchedSink(lambda: bench.redis.xlen(KEYS.actions()), unavailable=2)
    await answers(bench, kafka, Asked()).step()
    assert kafka.seen == [(TOPICS.outbound, 1)] * 3
    assert await bench.redis.xlen(KEYS.actions()) == 0


async def test_a_service_that_is_away_is_no_failure_of_an_action(bench: Bench) -> None:
    """It is waited for, however long; what fails for another reason is given up."""
    for action, left in ((Asked(5), 0), (Asked(5, ValueError), 2)):
        await bench.feed.say("info")
        await answers(bench, WatchedSink(bench.clock), action).step()
        assert action.fails == left


class Wordy(Asked):
    """An action whose author took something else for a reply."""

    async def answer(self, action: PendingAction) -> Any:
        """Tries counted down."""
        self.fails -= 1
        return {"pong": 1}


async def test_what_is_no_reply_is_answered_as_failed(bench: Bench) -> None:
    """Answers an action without a valid reply as failed after three tries; others go on."""
    action, kafka = Wordy(3), WatchedSink(bench.clock)
    await bench.feed.say("info")
    await answers(bench, kafka, action).step()
    assert (action.fails, len(kafka.seen)) == (0, 1)
    assert await bench.redis.xlen(KEYS.actions()) == 0


async def test_what_is_owed_is_told_before_it_is_forgotten(bench: Bench) -> None:
    """Kafka has the record; who dies before leaves the debt to another."""
    await bench.feed.seeds("a/1")
    kafka = WatchedSink(lambda: bench.redis.xlen(KEYS.outbox()), unavailable=2)
    outbound = Outbound(kafka, TOPICS)  # type: ignore[arg-type]
    tally = Tally(bench.redis, KEYS)
    await OutboxPublisher(
        bench.reader, outbound=outbound, tally=tally, liveness=Liveness("publish")
    ).step()
    assert kafka.seen == [(TOPICS.runs, 1), (TOPICS.events, 1)] * 3
    assert await bench.redis.xlen(KEYS.outbox()) == 0


def test_an_ending_that_does_not_add_up_is_an_alarm() -> None:
    """Each admitted page has come to one of the known ends, or a report is published."""
    ending = OutboxRecord(id="1", kind="crawl_finished", crawl=CRAWL, run=1, server_time=0)
    before = metrics.UNBALANCED_ENDINGS._value.get()
    check_ending(replace(ending, counters={"admitted": 5, "done": 3, "failed": 1, "expired": 1}))
    assert metrics.UNBALANCED_ENDINGS._value.get() == before
    check_ending(replace(ending, counters={"admitted": 5, "done": 4, "bytes": 1}))
    assert metrics.UNBALANCED_ENDINGS._value.get() == before + 1
