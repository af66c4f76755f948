"""A Redis that is full, restarted, gone, or has forgotten the scripts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from crawlstream.errors import FrontierFull, NoFrontier, PositionGap, RedisUnavailable
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.effects import Loss, Outcome, Settle
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream_chaos.processes import RunningServer
from crawlstream_frontier.codec.link_batch import LinkBatch
from crawlstream_frontier.streams import GROUP, TAKE_OVER_MS, Streams
from support.frontier.audit import audit
from support.frontier.bench import (
    CRAWL,
    KEYS,
    Bench,
    keep_what_is_answered,
    links,
    open_bench,
    position_of,
)
from support.spilling import filled

pytest_plugins = ["support.frontier.fixtures"]


OTHER = CrawlKey("link", "app", "other")
NOTHING_LEFT = 1e9
"""Share of its memory that Redis uses, so that it takes nothing more."""


@pytest.fixture
async def crowded(bench: Bench) -> Bench:
    """A frontier with a thousand links and a seed."""
    await bench.feed.seeds("a/1", "a/2")
    (lease,) = await bench.worker.lease()
    await bench.worker.settle(lease, links=[links(f"d{i}", range(50)) for i in range(20)])
    return bench


async def test_a_full_redis_refuses_intake_and_moves_no_position(crowded: Bench) -> None:
    """Seeds wait in Kafka: nothing was written, and the same batch succeeds later."""
    frontier, batch = crowded.frontier, crowded.feed.batch(crowded.feed.seed("b/1"))
    async with filled(crowded.redis, NOTHING_LEFT):
        with pytest.raises(FrontierFull):
            await frontier.intake.apply(batch)
        assert await position_of(frontier, "topic", 0) == 2
    assert (await frontier.intake.apply(batch)).applied == 1


@pytest.mark.parametrize(("share", "is_full"), [(0.7, False), (0.8, True)])
async def test_seeds_wait_before_redis_is_full(
    crowded: Bench, share: float, *, is_full: bool
) -> None:
    """Lets seeds wait from three quarters on, and says in logs and overview what ends it."""
    batch = crowded.feed.batch(crowded.feed.seed("b/1"))
    async with filled(crowded.redis, share):
        state = await crowded.frontier.queries.state()
        assert state.is_full == is_full
        assert 0 < state.memory_used < state.memory_limit
        if is_full:
            with pytest.raises(FrontierFull, match="maxmemory is raised"):
                await crowded.frontier.intake.apply(batch)
    assert (await crowded.frontier.intake.apply(batch)).applied == 1


async def test_a_redis_without_a_limit_is_never_full(crowded: Bench) -> None:
    """Admits seeds and links without a ``maxmemory``, and reports nothing as full."""
    limit = (await crowded.redis.config_get("maxmemory"))["maxmemory"]
    (lease,) = await crowded.worker.lease()
    await crowded.redis.config_set("maxmemory", 0)
    try:
        state = await crowded.frontier.queries.state()
        assert (state.is_full, state.memory_limit) == (False, 0)
        assert (await crowded.feed.seeds("b/1")).applied == 1
        answer = await crowded.worker.settle(lease, links=[links("b", [2])])
        assert not answer.is_crowded
        assert not answer.refused
    finally:
        await crowded.redis.config_set("maxmemory", limit)


async def test_commands_take_effect_in_a_full_redis(crowded: Bench) -> None:
    """Applies commands in a full Redis up to the first seed that must wait."""
    feed = crowded.feed
    before = [feed.command("pause"), feed.command("stop")]
    seed = feed.seed("b/1")
    batch = feed.batch(*before, seed, feed.command("info"))
    async with filled(crowded.redis, NOTHING_LEFT):
        with pytest.raises(FrontierFull):
            await crowded.frontier.intake.apply(batch)
        assert (await crowded.state()).state == "stopping"
        assert await position_of(crowded.frontier, "topic", 0) == seed.offset
    answer = await crowded.frontier.intake.apply(batch)
    assert (answer.applied, list(answer.runs.values())) == (2, [2])


async def test_a_stop_takes_effect_ahead_of_seeds_that_wait(crowded: Bench) -> None:
    """It is what makes room; it is answered once, and means the seeds that wait before it."""
    feed, other = crowded.feed, replace(CRAWL, crawlid="other")
    first, late = feed.seed("b/1", crawl=other), feed.seed("a/late")
    stop, after = feed.command("stop"), feed.seed("a/after")
    batch = feed.batch(first, late, stop, after, feed.command("info"))
    async with filled(crowded.redis, NOTHING_LEFT):
        for _ in range(3):
            with pytest.raises(FrontierFull):
                await crowded.frontier.intake.apply(batch)
            assert (await crowded.state()).state == "stopping"
            assert await position_of(crowded.frontier, "topic", 0) == first.offset
    answer = await crowded.frontier.intake.apply(batch)
    assert answer.applied == 5
    assert dict(answer.runs) == {first.offset: 1, after.offset: 2}
    assert dict(answer.refused) == {late.offset: "stopped"}
    names = [one.name for one in await crowded.reader.actions(count=10, block_ms=0)]
    assert names == ["stop", "info"]
    assert not await crowded.redis.exists(KEYS.tag + "ahead")


async def test_seeds_that_a_stop_means_do_not_wait_for_room(crowded: Bench) -> None:
    """They take none: they come back at once, and what follows them is reached."""
    feed = crowded.feed
    waiting = [feed.seed("a/late", timestamp_ms=1_000) for _ in range(5)]
    stop = feed.command("stop", timestamp_ms=2_000)
    async with filled(crowded.redis, NOTHING_LEFT):
        await crowded.frontier.intake.stop_ahead("topic", 0, stop)
        answer = await crowded.frontier.intake.apply(feed.batch(*waiting, stop))
    assert dict(answer.refused) == {seed.offset: "stopped" for seed in waiting}
    actions = await crowded.reader.actions(count=10, block_ms=0)
    assert [(one.name, one.purged) for one in actions] == [("stop", 1_001)]


async def test_a_stop_waits_for_its_turn_while_there_is_room(crowded: Bench) -> None:
    """Does nothing ahead without need, twice, or for an unknown partition."""
    stop = crowded.feed.command("stop")
    await crowded.frontier.intake.stop_ahead("topic", 0, stop)
    assert (await crowded.state()).state == "running"
    loss = Loss(topic_id="topic", kafka_partition=0, offset=0, until=stop.offset + 1)
    await crowded.frontier.positions.restore(loss)
    async with filled(crowded.redis, NOTHING_LEFT):
        await crowded.frontier.intake.stop_ahead("topic", 0, stop)
    assert (await crowded.state()).state == "running", "it was done in a Redis that is lost"
    with pytest.raises(PositionGap):
        await crowded.frontier.intake.stop_ahead("another", 0, stop)


async def test_a_full_redis_still_drains(crowded: Bench) -> None:
    """Leasing, settling, giving back, reaping and ending work without memory."""
    worker, frontier = crowded.worker, crowded.frontier
    async with filled(crowded.redis, NOTHING_LEFT):
        leases = await worker.lease(30)
        await worker.settle(*leases[:10])
        await worker.requeue(*leases[10:15], delay_ms=10)
        await worker.release(*leases[15:20])
        await worker.session.blame("w1", "")
        await worker.session.beat()
        await crowded.rule()
        assert (await crowded.state()).done == 11
        assert (await frontier.queries.state()).delayed == 5
        await crowded.tend()
    await crowded.advance(10_000)
    async with filled(crowded.redis, NOTHING_LEFT):
        assert len(await worker.crawl_all()) == 1_002 - 11
        assert await worker.session.retire() == 0


async def test_what_was_finished_in_a_full_redis_is_finished(crowded: Bench) -> None:
    """Records that are in Kafka leave both streams, and the next ones come."""
    async with filled(crowded.redis, NOTHING_LEFT):
        await crowded.feed.say("stop")
        assert await crowded.events() == ["crawl_started"]
        (stop,) = await crowded.reader.actions(count=10, block_ms=0)
        await crowded.reader.answered([stop.id])
        for stream in (KEYS.outbox(), KEYS.actions()):
            assert await crowded.redis.xlen(stream) == 0
            assert (await crowded.redis.xpending(stream, GROUP))["pending"] == 0
        await crowded.worker.crawl_all()
        await crowded.tend()
        assert await crowded.events() == ["crawl_stopped"]


async def test_what_was_deleted_before_its_reader_died_is_not_read_again(bench: Bench) -> None:
    """A reader may die between the two commands that end a record."""
    await bench.feed.seeds("a/1")
    await bench.feed.seeds("b/1", crawl=OTHER)
    first, second = await bench.reader.records(count=2, block_ms=0)
    await bench.redis.xdel(KEYS.outbox(), first.id)
    await bench.redis.xclaim(
        KEYS.outbox(), GROUP, "dead", 0, [first.id, second.id], idle=2 * TAKE_OVER_MS
    )
    heir = Streams(bench.redis, KEYS, "heir")
    assert [one.id for one in await heir.records(count=10, block_ms=0)] == [second.id]
    await heir.published([second.id])
    assert (await bench.redis.xpending(KEYS.outbox(), GROUP))["pending"] == 0


async def test_the_first_reader_of_a_full_redis_can_begin(redis: Redis) -> None:
    """Streams and groups that are not there yet are made."""
    async with filled(redis, NOTHING_LEFT):
        reader = Streams(redis, KEYS, "reader")
        assert [*await reader.records(block_ms=0), *await reader.actions(block_ms=0)] == []


async def test_scripts_that_redis_forgot_are_loaded_again(bench: Bench) -> None:
    """A flushed script cache, or another server, costs one more round trip."""
    await bench.feed.seeds("a/1")
    await bench.redis.script_flush()
    assert await bench.worker.crawl_all() == ["a/1"]
    await bench.redis.script_flush()
    assert (await bench.state()).done == 1


async def test_a_restarted_redis_has_lost_nothing(
    bench: Bench, redis_server: RunningServer
) -> None:
    """Keeps queue, leases and ledger after a kill, in a new epoch."""
    await keep_what_is_answered(bench.redis)
    rule = ThrottleRule(hits=4, window_s=1)
    await bench.rule(rule, {"long": ThrottleRule(hits=2, window_s=100, moderated=False)})
    await bench.feed.seeds(*(f"a/{i}" for i in range(5)), "long/1", "b/1")
    held = await bench.worker.lease(3)
    before = await bench.state()
    epoch = (await bench.frontier.queries.state()).life
    redis_server.kill()
    redis_server.start()
    after = await bench.state()
    assert (after.queued, after.held) == (before.queued, before.held) == (4, 3)
    answer = await bench.worker.exchange(want=5)
    assert (answer.redis_epoch > epoch, list(answer.leases)) == (True, [])
    assert not (await bench.worker.settle(*held, sent_ms=1)).stale
    await bench.advance(1_500)
    assert (await bench.worker.urls()) == ["a/1"]
    await bench.advance(100_000)
    await bench.rule(rule)
    assert await position_of(bench.frontier, "topic", 0) == 7
    await audit(bench.redis)


@pytest.mark.usefixtures("redis")
async def test_a_redis_that_is_away_is_said_to_be_so(redis_server: RunningServer) -> None:
    """Every operation and question answers with RedisUnavailable, and works again later."""
    client = Redis(host="127.0.0.1", port=redis_server.port, retry=Retry(NoBackoff(), 0))
    async with client:
        bench = await open_bench(client)
        await keep_what_is_answered(client)
        await bench.feed.seeds("a/1")
        redis_server.kill()
        try:
            streams = Streams(client, KEYS, "reader")
            for ask in (
                bench.worker.session.beat,
                bench.worker.lease,
                lambda: position_of(bench.frontier, "topic", 0),
                bench.frontier.rules.table,
                bench.frontier.queries.crawls,
                bench.frontier.queries.state,
                bench.frontier.maintenance.tend,
                lambda: streams.records(block_ms=0),
                lambda: streams.published(["1-1"]),
            ):
                with pytest.raises(RedisUnavailable):
                    await ask()
        finally:
            redis_server.start()
        assert await bench.worker.urls() == []
        await bench.advance(3_000)
        assert await bench.worker.urls() == ["a/1"]


async def test_a_read_only_redis_is_unavailable(bench: Bench) -> None:
    """A replica that got a call by mistake, or during a fail-over, is waited for."""
    await bench.redis.replicaof("127.0.0.1", 1)
    try:
        with pytest.raises(RedisUnavailable):
            await bench.feed.seeds("a/1")
        with pytest.raises(RedisUnavailable):
            await bench.worker.lease()
    finally:
        await bench.redis.replicaof("NO", "ONE")


@pytest.mark.usefixtures("redis")
@pytest.mark.parametrize("protocol", [2, 3])
async def test_either_protocol_of_redis_will_do(redis_server: RunningServer, protocol: int) -> None:
    """Answers and streams are read in the shapes of RESP2 and RESP3."""
    async with Redis(host="127.0.0.1", port=redis_server.port, protocol=protocol) as client:
        bench = await open_bench(client)
        await bench.feed.put(bench.feed.seed("a/1", uuid="u"), bench.feed.command("info"))
        assert await bench.worker.crawl_all() == ["a/1"]
        assert await bench.events() == ["crawl_started", "accepted"]
        streams = Streams(client, KEYS, "reader")
        (action,) = await streams.actions(count=5, block_ms=0)
        assert action.name == "info"
        assert not await streams.actions(count=5, block_ms=1)
        assert [state.crawl for state in await bench.frontier.queries.crawls()] == [CRAWL]
        assert await bench.frontier.rules.table()
        await audit(client)


async def test_no_call_creates_a_frontier(bench: Bench) -> None:
    """Asked of an emptied Redis, or of another one, each operation waits and leaves no trace."""
    await bench.feed.seeds("a/1")
    (lease,) = await bench.worker.lease()
    batch = bench.feed.batch(bench.feed.seed("b/1"))
    await bench.redis.flushdb()
    session, overflow = bench.worker.session, bench.frontier.overflow
    settle = Settle(token=lease.token, outcome=Outcome.DONE)
    empty = LinkBatch(topic_id="t", kafka_partition=0, start=0, next=1, records=[])
    frontier = bench.frontier
    calls: list[Callable[[], Awaitable[object]]] = [
        session.beat,
        lambda: session.exchange(settles=[settle], want=1),
        lambda: session.put_links(lease.token, [links("c", [1])]),
        lambda: session.reconcile([lease.token]),
        session.retire,
        lambda: session.blame("w1", ""),
        lambda: frontier.rules.agree("group"),
        lambda: overflow.recall(empty),
        frontier.maintenance.tend,
        bench.rule,
        overflow.state,
    ]
    for call in calls:
        with pytest.raises(NoFrontier):
            await call()
    with pytest.raises(PositionGap) as gap:
        await frontier.intake.apply(batch)
    assert gap.value.position == -1
    assert await bench.redis.dbsize() == 0
    loss = Loss(topic_id="topic", kafka_partition=0, offset=1)
    assert await bench.frontier.positions.restore(loss) == 1
    await bench.rule()
    await frontier.intake.apply(batch)
    assert await bench.worker.crawl_all() == ["b/1"]
