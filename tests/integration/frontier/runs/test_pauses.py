"""Pauses of crawls and domains that end by themselves, when Redis' clock says so."""

from __future__ import annotations

from dataclasses import replace

from redis.asyncio import Redis

from crawlstream.model.effects import Loss
from crawlstream.model.run_marks import Fate
from crawlstream.model.throttle_table import ThrottleRule
from support.frontier.audit import audit
from support.frontier.bench import CRAWL, GRACE_MS, WIDE_OPEN, Bench, open_bench
from support.frontier.time import Times, timed

pytest_plugins = ["support.frontier.fixtures"]

OTHER = replace(CRAWL, crawlid="other")
HOUR_S = 3_600
LONG_AGO, FAR = 1, 4_000_000_000


def wall_s(times: Times) -> int:
    """The time of day by Redis' clock, in whole epoch seconds."""
    return int((times.now + times.ahead) / 1000)


async def test_a_pause_ends_at_its_time_and_not_before(redis: Redis) -> None:
    """Tend comes back for it by itself, and the crawl goes on in its order."""
    times = Times()
    async with timed(redis, times) as client:
        bench = await open_bench(client)
        await bench.feed.seeds("a/1", "a/2")
        until = wall_s(times) + HOUR_S
        await bench.feed.say("pause", until=until)
        assert await bench.worker.lease() == []
        state = await bench.state()
        assert (state.state, state.paused_until) == ("paused", until)
        step = await bench.frontier.maintenance.tend()
        assert step.next_ms is not None
        assert step.next_ms <= HOUR_S * 1000, "nobody would look when it ends"
        times.now += (HOUR_S - 2) * 1000
        await bench.tend()
        assert await bench.worker.lease() == []
        times.now += 3_000
        await bench.tend()
        state = await bench.state()
        assert (state.state, state.paused_until) == ("running", 0)
        assert await bench.worker.crawl_all() == ["a/1", "a/2"]
        await audit(client)


async def test_a_pause_ends_on_time_though_the_cluster_was_away(redis: Redis) -> None:
    """The frontier clock stands while no process runs; the time of day does not."""
    times = Times()
    async with timed(redis, times) as client:
        bench = await open_bench(client)
        await bench.feed.seeds("a/1")
        await bench.feed.say("pause", until=wall_s(times) + HOUR_S)
        times.now += HOUR_S * 1000
        again = await open_bench(client)
        await again.tend()
        assert (await again.state()).state == "running"


async def test_tend_is_woken_for_a_pause_that_ends_soon(bench: Bench) -> None:
    """A worker that sleeps until later is woken; a pause without an end wakes none."""
    await bench.feed.seeds("a/1")
    await bench.tend()
    async with bench.redis.pubsub() as heard:
        await heard.subscribe(bench.frontier.scripts.keys.tag + "wake:tend")
        assert await heard.get_message(timeout=5)
        await bench.feed.say("pause")
        assert await heard.get_message(timeout=0.2) is None
        await bench.feed.say("pause", until=LONG_AGO)
        told = await heard.get_message(timeout=5)
    assert told
    assert told["type"] == "message"


async def test_the_last_word_about_a_pause_counts(bench: Bench) -> None:
    """A new end replaces the old one; none takes it away, a resume does, and so does a new run."""
    await bench.feed.seeds("a/1")
    for until in (LONG_AGO, FAR):
        await bench.feed.say("pause", until=until)
    await bench.tend()
    assert (await bench.state()).paused_until == FAR
    await bench.feed.say("pause", until=LONG_AGO)
    await bench.feed.say("pause")
    await bench.tend()
    state = await bench.state()
    assert (state.state, state.paused_until) == ("paused", 0)
    await bench.feed.say("pause", until=FAR)
    await bench.feed.say("resume")
    assert (await bench.state()).state == "running"
    await bench.feed.say("pause", until=FAR)
    await bench.feed.say("stop")
    await bench.feed.seeds("a/2")
    assert (await bench.state()).state == "running"
    await audit(bench.redis)


async def test_an_empty_run_has_its_grace_when_its_pause_ends(bench: Bench) -> None:
    """It becomes idle at the end of the pause, not before, and finishes after that."""
    await bench.feed.seeds("a/1")
    (lease,) = await bench.worker.lease()
    await bench.feed.say("pause", until=FAR)
    await bench.worker.settle(lease)
    await bench.advance(GRACE_MS * 10)
    await bench.tend()
    await bench.feed.say("pause", until=LONG_AGO)
    await bench.tend()
    assert await bench.events() == ["crawl_started"]
    await bench.advance(GRACE_MS)
    await bench.tend()
    assert await bench.events() == ["crawl_finished"]


async def test_a_pause_of_another_crawl_goes_on(bench: Bench) -> None:
    """The pause ends whose time has come, not the other."""
    await bench.feed.seeds("a/1")
    await bench.feed.seeds("a/2", crawl=OTHER)
    await bench.feed.say("pause", until=LONG_AGO)
    await bench.feed.say("pause", OTHER, until=FAR)
    await bench.tend()
    assert await bench.worker.crawl_all() == ["a/1"]


async def test_a_lost_redis_is_told_until_when(bench: Bench) -> None:
    """A run that begins again is paused as long as it was, or goes on if that time has passed."""
    fates = [
        Fate(crawl=crawl, run=1, is_over=False, is_paused=True, paused_until=until)
        for crawl, until in ((CRAWL, FAR), (OTHER, LONG_AGO))
    ]
    loss = Loss(topic_id="topic", kafka_partition=0, offset=0, until=9, floor=2, fates=fates)
    await bench.frontier.positions.restore(loss)
    await bench.feed.seeds("a/1")
    await bench.feed.seeds("a/2", crawl=OTHER)
    await bench.tend()
    states = [await bench.state(), await bench.state(OTHER)]
    assert [(one.state, one.paused_until) for one in states] == [("paused", FAR), ("running", 0)]


async def test_an_old_copy_is_told_until_when(bench: Bench) -> None:
    """A run that was open is paused until the time that Kafka knows, whatever the copy says."""
    await bench.feed.seeds("a/1")
    await bench.feed.say("pause")
    await bench.pretend_restart()
    fates = [Fate(crawl=CRAWL, run=1, is_over=False, is_paused=True, paused_until=FAR)]
    loss = Loss(topic_id="topic", kafka_partition=0, offset=0, until=9, floor=1, fates=fates)
    await bench.frontier.positions.restore(loss)
    assert (await bench.state()).paused_until == FAR
    await audit(bench.redis)


# Domains.


async def test_a_paused_domain_is_asked_again_when_its_time_has_come(redis: Redis) -> None:
    """Others are served meanwhile; no command is needed."""
    times = Times()
    async with timed(redis, times) as client:
        bench = await open_bench(client)
        until = wall_s(times) + 90
        paused = ThrottleRule(hits=100, window_s=1, moderated=False, paused_until=until)
        await bench.rule(WIDE_OPEN, {"a": paused})
        await bench.feed.seeds("a/1", "b/1")
        assert await bench.worker.crawl_all() == ["b/1"]
        while times.now + times.ahead < until * 1000 - 10_000:
            times.now += 10_000
            assert await bench.worker.crawl_all() == []
        times.now += 10_000
        assert await bench.worker.crawl_all() == ["a/1"]


async def test_a_pause_of_a_domain_ends_on_time_though_the_cluster_was_away(redis: Redis) -> None:
    """Ends the pause of a domain within a minute of the frontier clock after an outage."""
    times = Times()
    async with timed(redis, times) as client:
        bench = await open_bench(client)
        until = wall_s(times) + HOUR_S
        await bench.rule(WIDE_OPEN, {"a": replace(WIDE_OPEN, paused_until=until)})
        await bench.feed.seeds("a/1")
        assert await bench.worker.crawl_all() == []
        times.now += HOUR_S * 1000
        worker = bench.another_worker("later")
        for _ in range(6):
            assert await worker.crawl_all() == []
            times.now += 10_000
        assert await worker.crawl_all() == ["a/1"]


async def test_a_paused_domain_is_held_back_by_a_person(bench: Bench) -> None:
    """It is reported with its end, as a blocked one; and its pages are not given up."""
    await bench.rule(WIDE_OPEN, {"a": replace(WIDE_OPEN, paused_until=FAR)})
    await bench.feed.seeds("a/1")
    assert await bench.worker.lease() == []
    (backlog,) = (await bench.state()).domains
    assert backlog.is_blocked
    report = await bench.frontier.inspector.domain("a")
    assert report.rule
    assert report.rule.is_paused
    assert report.next_ms > HOUR_S * 1000
    await bench.redis.hset(bench.frontier.scripts.keys.tag + "abandon", "1", "0")
    await bench.worker.session.retire()
    await bench.tend()
    assert (await bench.state()).queued == 1
    await bench.rule(WIDE_OPEN, {"a": replace(WIDE_OPEN, paused_until=LONG_AGO)})
    (backlog,) = (await bench.state()).domains
    assert not backlog.is_blocked
    assert await bench.another_worker("next").crawl_all() == ["a/1"]
