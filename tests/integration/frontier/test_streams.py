"""Actions that wait for an answer and outbox records: shared, taken over, ended."""

from __future__ import annotations

import asyncio
import time

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from crawlstream.errors import RedisUnavailable
from crawlstream_frontier import streams as streams_module
from crawlstream_frontier.scripts import Scripts
from crawlstream_frontier.streams import GROUP, Streams
from support.frontier.bench import KEYS, Bench
from support.waiting import WaitUntil

pytest_plugins = ["support.frontier.fixtures"]

PATIENCE_S = 1.2


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers are taken for dead soon."""
    monkeypatch.setattr(streams_module, "TAKE_OVER_MS", 30)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers are taken for dead soon, but not between two lines of a test on a busy machine."""
    monkeypatch.setattr(streams_module, "TAKE_OVER_MS", int(PATIENCE_S * 900))


async def commands_of(redis: Redis) -> dict[str, int]:
    """How often each command was called since the counters were reset."""
    stats = await redis.info("commandstats")
    return {name.removeprefix("cmdstat_"): value["calls"] for name, value in stats.items()}


async def test_actions_come_in_record_order_with_what_they_did(bench: Bench) -> None:
    """A stop carries its count and run; the request is returned byte by byte."""
    feed = bench.feed
    await feed.put(
        feed.seed("a/1"), feed.command("info", None), feed.command("stop"), feed.command("stats")
    )
    reader = Streams(bench.redis, KEYS, "one")
    info, stop, stats = await reader.actions(block_ms=0)
    assert [action.name for action in (info, stop, stats)] == ["info", "stop", "stats"]
    assert (stop.purged, stop.run, info.purged, info.run) == (1, 1, None, None)
    assert info.request == b'{"uuid": "u"}'
    assert {action.attempts for action in (info, stop, stats)} == {1}


async def test_readers_share_the_work(bench: Bench) -> None:
    """No action is read by two living readers."""
    await bench.feed.put(*(bench.feed.command("info") for _ in range(10)))
    one, two = Streams(bench.redis, KEYS, "one"), Streams(bench.redis, KEYS, "two")
    first, second = await one.actions(count=4, block_ms=0), await two.actions(block_ms=0)
    assert [len(first), len(second)] == [4, 6]
    assert not {action.id for action in first} & {action.id for action in second}


async def test_what_is_answered_is_gone(bench: Bench) -> None:
    """Removes only answered requests from the stream."""
    await bench.feed.put(*(bench.feed.command("info") for _ in range(3)))
    reader = Streams(bench.redis, KEYS, "one")
    first, *_ = await reader.actions(block_ms=0)
    await reader.answered([first.id])
    await reader.answered([])
    assert await bench.redis.xlen(KEYS.actions()) == 2
    await reader.answered([first.id])
    assert (await bench.frontier.queries.state()).actions == 2


@pytest.mark.usefixtures("patient")
async def test_the_work_of_the_dead_is_taken_over(bench: Bench) -> None:
    """Records that a reader left unfinished come to another, which learns the number of tries."""
    await bench.feed.put(*(bench.feed.command("info") for _ in range(3)))
    dead = Streams(bench.redis, KEYS, "dead")
    unfinished = await dead.actions(block_ms=0)
    await dead.answered([unfinished[0].id])
    await asyncio.sleep(PATIENCE_S)
    for attempt in (2, 3):
        heir = Streams(bench.redis, KEYS, f"heir{attempt}")
        left = [*await heir.actions(block_ms=0), *await heir.actions(block_ms=0)]
        assert [action.id for action in left] == [action.id for action in unfinished[1:]]
        assert {action.attempts for action in left} == {attempt}
        await asyncio.sleep(PATIENCE_S)


@pytest.mark.usefixtures("patient")
async def test_an_action_that_ends_its_readers_blames_nobody_else(bench: Bench) -> None:
    """Records that a dead reader left come one by one; only those taken count as tried again."""
    await bench.feed.put(*(bench.feed.command("info") for _ in range(3)))
    await Streams(bench.redis, KEYS, "dead").actions(block_ms=0)
    for attempt in (2, 3):
        await asyncio.sleep(PATIENCE_S)
        (poison,) = await Streams(bench.redis, KEYS, f"heir{attempt}").actions(block_ms=0)
        assert poison.attempts == attempt
    reader = Streams(bench.redis, KEYS, "reader")
    beside = [*await reader.actions(block_ms=0), *await reader.actions(block_ms=0)]
    assert poison.id not in {action.id for action in beside}
    assert [action.attempts for action in beside] == [2, 2]


@pytest.mark.usefixtures("patient")
async def test_work_that_takes_long_is_not_taken_over(bench: Bench, wait_until: WaitUntil) -> None:
    """While a living reader keeps its actions no other gets them, nor does it count as a try."""
    await bench.feed.put(*(bench.feed.command("info") for _ in range(3)))
    reader = Streams(bench.redis, KEYS, "reader")
    read = await reader.actions(block_ms=0)
    async with reader.keeping([action.id for action in read]):
        await asyncio.sleep(PATIENCE_S * 1.5)
        assert not await Streams(bench.redis, KEYS, "other").actions(block_ms=0)
    heir = Streams(bench.redis, KEYS, "heir")
    (taken,) = await wait_until(lambda: heir.actions(block_ms=0))
    assert (taken.id, taken.attempts) == (read[0].id, 2)


@pytest.mark.usefixtures("hurried")
async def test_a_large_legacy_is_taken_over_at_once(bench: Bench) -> None:
    """A reader takes what the dead left as fast as it can finish it, without pauses."""
    await bench.feed.put(*(bench.feed.command("info") for _ in range(25)))
    await Streams(bench.redis, KEYS, "dead").actions(count=100, block_ms=0)
    await asyncio.sleep(0.05)
    heir, taken = Streams(bench.redis, KEYS, "heir"), 0
    for _ in range(25):
        part = await heir.actions(count=10, block_ms=0)
        taken += len(part)
        await heir.answered([action.id for action in part])
    assert taken == 25


async def test_living_readers_keep_what_they_work_on(bench: Bench) -> None:
    """A record in progress is not given to another reader too soon."""
    await bench.feed.put(bench.feed.command("info"))
    await Streams(bench.redis, KEYS, "one").actions(block_ms=0)
    assert not await Streams(bench.redis, KEYS, "two").actions(block_ms=0)


async def test_readers_of_the_past_are_forgotten(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each start of a monitor is a reader of its own: those long gone leave no name behind."""
    monkeypatch.setattr(streams_module, "GONE_MS", 20)
    await bench.feed.put(bench.feed.command("info"))
    busy = Streams(bench.redis, KEYS, "busy")
    (action,) = await busy.actions(block_ms=0)
    for i in range(5):
        await bench.redis.xgroup_createconsumer(KEYS.actions(), GROUP, f"gone{i}")
    await asyncio.sleep(0.05)
    await Streams(bench.redis, KEYS, "new").actions(block_ms=0)
    readers = await bench.redis.xinfo_consumers(KEYS.actions(), GROUP)
    assert {reader["name"] for reader in readers} <= {b"busy", b"new"}
    await busy.answered([action.id])
    assert (await bench.frontier.queries.state()).actions == 0


async def test_waiting_readers_are_quiet(bench: Bench) -> None:
    """An idle reader waits inside Redis: one command for each wait, and few looks for the dead."""
    reader = Streams(bench.redis, KEYS, "one")
    await reader.actions(block_ms=1)
    await bench.redis.config_resetstat()
    for _ in range(5):
        assert not await reader.actions(block_ms=1)
    calls = await commands_of(bench.redis)
    assert calls["xreadgroup"] == 5
    assert set(calls) <= {"xreadgroup", "config|resetstat", "info"}


async def test_a_waiting_reader_gets_what_comes(bench: Bench) -> None:
    """Records fed while a reader waits reach it at once."""
    reader = Streams(bench.redis, KEYS, "one")
    await reader.actions(block_ms=0)
    waiting = asyncio.create_task(reader.actions(block_ms=5_000))
    await asyncio.sleep(0.05)
    begun = time.monotonic()
    await bench.feed.put(bench.feed.command("info"))
    assert len(await waiting) == 1
    assert time.monotonic() - begun < 1


async def test_an_emptied_redis_is_no_reason_to_stop(bench: Bench) -> None:
    """A reader whose group has vanished makes it again."""
    reader = Streams(bench.redis, KEYS, "one")
    assert not await reader.records(block_ms=0)
    await bench.redis.flushdb()
    await bench.feed.place()
    await bench.feed.seeds("a/1")
    assert [one.kind for one in await reader.records(block_ms=0)] == ["crawl_started"]


@pytest.mark.parametrize("losses", [1, 2])
async def test_a_redis_emptied_under_a_waiting_reader_is_waited_for(
    bench: Bench, wait_until: WaitUntil, losses: int
) -> None:
    """Redis ends the waiting by an error: the group is made again, or the reader's turn is over."""
    reader = Streams(bench.redis, KEYS, "one")
    await reader.actions(block_ms=0)
    waiting = asyncio.create_task(reader.actions(block_ms=5_000))
    for _ in range(losses):

        async def is_blocked() -> bool:
            return bool((await bench.redis.info("clients"))["blocked_clients"])

        await wait_until(is_blocked)
        await bench.redis.flushdb()
        await wait_until(lambda: waiting.done() or bench.redis.exists(KEYS.actions()))
    await bench.feed.place()
    if losses == 1:
        await bench.feed.put(bench.feed.command("info"))
        assert [action.name for action in await waiting] == ["info"]
    else:
        with pytest.raises(RedisUnavailable):
            await waiting


async def test_what_is_owed_is_typed(bench: Bench) -> None:
    """A beginning and an acceptance say whose they are."""
    await bench.feed.seeds("a/1", uuid="who")
    started, accepted = await bench.owed()
    assert (started.kind, started.run, started.counters) == ("crawl_started", 1, {})
    assert (accepted.kind, accepted.uuid, accepted.lease) == ("accepted", "who", None)
    assert abs(started.server_time - time.time()) < 5


async def test_a_group_is_made_once(redis: Redis) -> None:
    """A second caller finds it; a key that is not a stream is an error."""
    scripts = Scripts(redis, KEYS)
    assert [await scripts.run("group", "outbox", GROUP) for _ in range(2)] == [1, 0]
    await redis.set(KEYS.tag + "text", "")
    with pytest.raises(ResponseError):
        await scripts.run("group", "text", GROUP)
