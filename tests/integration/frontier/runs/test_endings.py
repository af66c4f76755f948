"""How runs end, once each: finish, expire; and what is left when all is over."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import permutations
from typing import Any

from crawlstream.model.effects import Loss, Outcome
from crawlstream.model.run_marks import Fate
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream.model.words.price import Price
from support.frontier.audit import audit, left_over
from support.frontier.bench import CRAWL, DEDUPE_MS, GRACE_MS, KEYS, Bench, Feed, endings, links

pytest_plugins = ["support.frontier.fixtures"]

HOUR_MS = 3_600_000
OTHER = replace(CRAWL, crawlid="other")


# Finishing.


async def test_a_run_finishes_once_after_the_grace(bench: Bench) -> None:
    """A run without entries ends when the grace has passed, with counters that add up."""
    await bench.feed.seeds("a/1", "a/2")
    await bench.worker.crawl_all()
    await bench.tend()
    assert not await endings(bench)
    await bench.advance(GRACE_MS)
    await bench.tend()
    await bench.tend()
    (ending,) = await endings(bench)
    assert (ending.kind, ending.run) == ("crawl_finished", 1)
    assert ending.counters["admitted"] == ending.counters["done"] == 2
    assert ending.reasons["done"] == {"2xx": 2}
    assert (await bench.state()).state == "finished"


async def test_money_and_bodies_count_on_pages_without_links(bench: Bench) -> None:
    """Each by itself: a charge, a body that is not kept, a reservation of the site."""
    pages: list[dict[str, Any]] = [
        {"charged": Price("USD", 10_000)},
        {"dropped": "noindex"},
        {"is_reserved": True},
    ]
    await bench.feed.seeds("a/1", "a/2", "a/3")
    for lease, page in zip(await bench.worker.lease(3), pages, strict=True):
        await bench.worker.settle(lease, **page)
    await bench.advance(GRACE_MS)
    await bench.tend()
    (ending,) = await endings(bench)
    assert ending.counters["done"] == 3
    assert ending.reasons["charged"] == {"USD": 10_000}
    assert ending.reasons["dropped"] == {"noindex": 1}
    assert ending.reasons["reserved"] == {"reserved": 1}


async def test_a_run_is_not_idle_while_anything_is_left(bench: Bench) -> None:
    """Held and delayed entries keep their run open."""
    await bench.feed.seeds("a/1")
    (lease,) = await bench.worker.lease()
    await bench.advance(GRACE_MS * 2)
    await bench.tend()
    await bench.worker.requeue(lease, delay_ms=20_000)
    await bench.advance(GRACE_MS * 2)
    await bench.tend()
    assert not await endings(bench)
    assert (await bench.state()).state == "running"


async def test_a_thousand_seeds_fed_one_by_one_are_one_run(bench: Bench) -> None:
    """A run that is crawled empty between two seeds is continued by the next."""
    for i in range(1_000):
        answer = await bench.feed.seeds(f"a/{i}")
        assert dict(answer.runs) == {i: 1}
        await bench.worker.crawl_all(want=1)
        if i % 50 == 0:
            await bench.advance(GRACE_MS - 1_500)
            await bench.tend()
    await bench.advance(GRACE_MS)
    await bench.tend()
    (ending,) = await endings(bench)
    assert ending.counters["done"] == 1_000


async def test_a_later_feed_opens_the_next_run_with_dedupe_kept(bench: Bench) -> None:
    """Fetches known links not again in the next run, but its seeds."""
    await bench.feed.seeds("a/1", maxdepth=1)
    (lease,) = await bench.worker.lease()
    await bench.worker.settle(lease, links=[links("a", [2])])
    await bench.worker.crawl_all()
    await bench.advance(GRACE_MS)
    await bench.tend()
    assert dict((await bench.feed.seeds("a/1", maxdepth=1)).runs) == {1: 2}
    (lease,) = await bench.worker.lease()
    assert lease.run == 2
    await bench.worker.settle(lease, links=[links("a", [2, 3])])
    assert await bench.worker.crawl_all() == ["a/3"]
    state = await bench.state()
    assert (state.run, state.admitted, state.filtered_by_reason) == (2, 2, {"duplicate": 1})


async def test_the_next_run_counts_from_nothing(bench: Bench) -> None:
    """The counters and reasons of the former run are not reported for the next."""
    await bench.feed.seeds("a/1", "a/2", maxdepth=1)
    good, bad = await bench.worker.lease(2)
    await bench.worker.settle(good, links=[links("a", [1])], body_bytes=7)
    await bench.worker.settle(bad, outcome=Outcome.FAILED)
    await bench.advance(GRACE_MS)
    await bench.tend()
    await bench.feed.seeds("a/3")
    state = await bench.state()
    assert (state.run, state.admitted, state.done, state.failed, state.body_bytes) == (
        2,
        1,
        0,
        0,
        0,
    )
    assert state.done_by_status == state.failed_by_reason == state.filtered_by_reason == {}


async def test_dedupe_ends_some_time_after_the_run(bench: Bench) -> None:
    """Fetches everything again once DUPEFILTER_TIMEOUT has passed, in the next run."""
    await bench.feed.seeds("a/1", domain_max_pages=1)
    await bench.worker.crawl_all()
    for ms in (GRACE_MS, DEDUPE_MS):
        await bench.advance(ms)
        await bench.tend()
    answer = await bench.feed.seeds("a/9", domain_max_pages=1)
    assert (dict(answer.runs), dict(answer.refused)) == ({1: 2}, {})


async def test_a_feed_in_the_last_moment_keeps_dedupe(bench: Bench) -> None:
    """A run that begins before dedupe ends keeps it until that run has ended."""
    await bench.feed.seeds("a/1")
    await bench.worker.crawl_all()
    await bench.advance(GRACE_MS)
    await bench.tend()
    await bench.advance(DEDUPE_MS - 5_000)
    await bench.feed.seeds("b/1")
    await bench.advance(DEDUPE_MS)
    await bench.tend()
    (lease,) = await bench.worker.lease()
    await bench.worker.settle(lease, links=[links("a", [1])])
    assert (await bench.state()).filtered_by_reason == {"duplicate": 1}


async def _finish(bench: Bench) -> None:
    await bench.worker.crawl_all()
    await bench.advance(GRACE_MS)
    await bench.tend()


async def test_a_crawl_may_remember_for_longer_or_less(bench: Bench) -> None:
    """The latest seed that says so rules, over runs as well; others change nothing."""
    await bench.feed.seeds("a/1", remember=5_400)
    await bench.feed.seeds("a/2")
    await _finish(bench)
    await bench.advance(2 * DEDUPE_MS)
    await bench.tend()
    assert dict((await bench.feed.seeds("a/3", maxdepth=1)).runs) == {2: 2}
    (lease,) = await bench.worker.lease()
    await bench.worker.settle(lease, links=[links("a", [1, 2])])
    state = await bench.state()
    assert (state.filtered_by_reason, state.remember, state.counted) == ({"duplicate": 2}, 5_400, 3)
    await bench.feed.seeds("a/4", remember=0, maxdepth=1)
    await _finish(bench)
    await bench.tend()
    await bench.feed.seeds("a/5", maxdepth=1)
    (lease,) = await bench.worker.lease()
    await bench.worker.settle(lease, links=[links("a", [1, 2])])
    state = await bench.state()
    assert (state.filtered_by_reason, state.remember) == ({}, None)


async def test_what_a_crawl_was_told_to_remember_ends_with_a_stop(bench: Bench) -> None:
    """A stop forgets at once; the crawl begins again, with the operator's time."""
    await bench.feed.seeds("a/1", remember=5_400)
    await bench.feed.say("stop")
    await bench.feed.seeds("a/2")
    assert (await bench.state()).remember is None


async def test_an_older_seed_that_is_read_late_does_not_say_what_is_remembered(
    bench: Bench,
) -> None:
    """The time of the record decides, whichever partition was read first."""
    other = await bench.another_feed(1)
    await bench.feed.seeds("a/1", remember=60, timestamp_ms=2_000)
    await other.seeds("a/2", remember=0, timestamp_ms=1_000)
    assert (await bench.state()).remember == 60
    await other.seeds("a/3", remember=0, timestamp_ms=3_000)
    assert (await bench.state()).remember == 0


async def test_a_run_that_comes_back_remembers_as_it_was_told(bench: Bench) -> None:
    """Options of seeds of earlier runs are published with the beginning of the run."""
    await bench.feed.seeds("a/1", remember=5_400)
    await _finish(bench)
    await bench.feed.seeds("a/2")
    marks = [one for one in await bench.owed() if one.kind == "crawl_started"]
    assert [mark.remember for mark in marks] == [None, 5_400]
    await bench.redis.flushdb()
    fate = Fate(crawl=CRAWL, run=2, is_over=False, remember=marks[1].remember)
    lost = Loss(topic_id="topic", kafka_partition=0, offset=0, until=2, fates=[fate])
    await bench.frontier.positions.restore(lost)
    bench.feed.next = 0
    await bench.feed.seeds("a/2")
    state = await bench.state()
    assert (state.run, state.remember) == (2, 5_400)


async def test_a_run_whose_seeds_were_all_refused_finishes(bench: Bench) -> None:
    """A run that nothing was admitted to still ends."""
    await bench.feed.seeds("a/1", domain_max_pages=0)
    await bench.advance(GRACE_MS)
    await bench.tend()
    (ending,) = await endings(bench)
    assert ending.counters["admitted"] == 0
    assert ending.reasons["filtered"] == {"domain_max_pages": 1}


# Expiring.


async def test_a_time_that_is_past_ends_the_run_at_once(bench: Bench) -> None:
    """A seed whose expiry has passed opens a run that expires with it."""
    await bench.feed.seeds("a/1", "a/2", expires=1)
    assert not await bench.worker.lease()
    await bench.tend()
    (ending,) = await endings(bench)
    assert (ending.kind, ending.counters["expired"]) == ("crawl_expired", 2)


async def test_a_run_expires_when_its_time_comes(bench: Bench) -> None:
    """Pages queued then are counted as expired; leased pages may still end well."""
    await bench.feed.seeds("a/1", "a/2", "a/3", expires=int(time.time()) + 100)
    done, released = await bench.worker.lease(2)
    (step,) = await bench.tend()
    assert step.next_ms is not None
    assert step.next_ms <= 100_000
    assert not await endings(bench)
    await bench.redis.hset("{cs0}x:1", "expires", int(time.time()) - 1)
    await bench.redis.zadd("{cs0}expiry", {"1": int(time.time()) - 1})
    await bench.tend()
    assert (await bench.state()).state == "expiring"
    await bench.worker.settle(done)
    await bench.worker.release(released)
    await bench.tend()
    (ending,) = await endings(bench)
    assert [ending.counters[name] for name in ("done", "expired")] == [1, 2]


async def test_the_last_expiry_that_was_said_rules_the_run(bench: Bench) -> None:
    """A later seed's expiry replaces the former; none leaves it as it is."""
    await bench.feed.seeds("a/1", expires=int(time.time()) + 100)
    await bench.feed.seeds("a/2")
    assert (await bench.state()).expires > time.time()
    await bench.feed.seeds("a/3", expires=1)
    await bench.tend()
    assert (await bench.state()).state == "expired"


async def test_a_seed_after_the_time_opens_the_next_run(bench: Bench) -> None:
    """A run that is over by the clock, though not ended yet, takes no new seed."""
    await bench.feed.seeds("a/1", expires=1)
    answer = await bench.feed.seeds("a/2")
    assert dict(answer.runs) == {1: 2}
    assert await bench.worker.urls() == ["a/2"]
    await bench.tend()
    assert [(one.kind, one.run) for one in await endings(bench)] == [("crawl_expired", 1)]


async def test_a_batch_of_seeds_with_and_without_a_time_is_as_one_after_the_other(
    bench: Bench,
) -> None:
    """A time that is past closes the run to what follows it, which is of the next run."""
    seed, later = bench.feed.seed, int(time.time()) + 1_000
    told = await bench.feed.put(
        seed("a/1"), seed("a/2", expires=1), seed("a/3", expires=later), seed("a/4")
    )
    assert dict(told.runs) == {0: 1, 1: 1, 2: 2, 3: 2}
    await bench.tend()
    assert [one.counters["expired"] for one in await endings(bench)] == [2]
    assert sorted(await bench.worker.crawl_all()) == ["a/3", "a/4"]


async def test_seeds_that_come_too_late_together_are_one_run(bench: Bench) -> None:
    """A batch of seeds whose time has passed expires as one run, answered once."""
    await bench.feed.seeds(*(f"a/{i}" for i in range(100)), expires=1)
    await bench.tend()
    (ending,) = await endings(bench)
    assert ending.counters["expired"] == 100


# Forgetting.


async def test_nothing_is_left_when_all_is_over(bench: Bench) -> None:
    """Leaves only permanent keys after endings, duplicate filter and `remember`."""
    await bench.rule(ThrottleRule(hits=2, window_s=1))
    worker = bench.worker
    await bench.feed.seeds("a/1", "b/1", "c/1")
    (lease,) = await worker.lease()
    big = [links("big", range(600), spiderid="other")]
    await worker.settle(lease, links=[links("d", [1]), *big])
    await bench.feed.seeds("a/1", crawl=OTHER, expires=1)
    await bench.advance(10_000)
    other = bench.another_worker("w2", "other")
    await bench.rule()
    await worker.crawl_all()
    assert len(await other.crawl_all()) == 600
    for ms in (GRACE_MS, DEDUPE_MS, HOUR_MS, HOUR_MS, HOUR_MS):
        await bench.advance(ms)
        await bench.tend()
    await bench.owed()
    assert left_over(await audit(bench.redis)) == set()


async def test_run_numbers_never_repeat(bench: Bench) -> None:
    """Gives no run number twice, even after a crawl was forgotten."""
    for expected in (1, 2):
        await bench.feed.seeds("a/1")
        assert (await bench.state()).run == expected
        await bench.worker.crawl_all()
        await bench.advance(GRACE_MS)
        await bench.tend()
    for ms in (DEDUPE_MS, HOUR_MS, HOUR_MS):
        await bench.advance(ms)
        await bench.tend()
    assert await bench.frontier.queries.crawl_state(CRAWL) is None
    await bench.feed.seeds("a/1")
    assert (await bench.state()).run > 2


async def test_a_seed_just_before_the_end_is_not_lost(bench: Bench) -> None:
    """Crawls each seed once, in whatever order it is fed and the run is ended."""
    crawled = []
    for i in range(6):
        await bench.feed.seeds(f"a/{i}")
        crawled += await bench.worker.crawl_all()
        await bench.advance(GRACE_MS - 20 + 8 * i)
        await bench.tend()
    assert crawled == [f"a/{i}" for i in range(6)]


async def test_care_of_an_idle_frontier_is_one_quiet_call(bench: Bench) -> None:
    """Requests no further step of care when there is nothing to do."""
    await bench.feed.seeds("a/1")
    (step,) = await bench.tend()
    assert (step.ended, step.reaped, step.more, step.next_ms) == (0, 0, False, None)
    await bench.worker.crawl_all()
    (step,) = await bench.tend()
    assert step.next_ms is not None
    assert GRACE_MS - 1_000 < step.next_ms <= GRACE_MS


async def test_the_last_time_to_end_is_that_of_the_last_record(bench: Bench) -> None:
    """Applies the latest `expires` by time, partition and offset of records, in any order."""
    soon, late = int(time.time()) + 100, int(time.time()) + 10_000
    for number, order in enumerate(permutations(range(4))):
        crawl = replace(CRAWL, crawlid=f"{number}")
        feeds = [await bench.another_feed(partition, f"topic-{number}") for partition in range(4)]
        told = [(1_000, late), (2_000, soon), (2_000, late), (500, soon)]
        for at in order:
            time_ms, expires = told[at]
            await feeds[at].seeds(f"a/{at}", crawl=crawl, timestamp_ms=time_ms, expires=expires)
        assert (await bench.state(crawl)).expires == late, order


async def test_a_run_that_was_found_over_stays_over(bench: Bench) -> None:
    """A machine's clock that goes forward and back leaves no entries that cannot be leased."""
    later = int(time.time()) + 1_000
    await bench.feed.seeds("a/1", "a/2", expires=later)
    await bench.feed.seeds("b/1", crawl=OTHER, expires=later)
    for crawl in ("1", "2"):
        await bench.redis.hset(f"{KEYS.tag}x:{crawl}", "expires", 1)
    assert not await bench.worker.lease(10), "the clock has gone forward"
    for crawl in ("1", "2"):
        await bench.redis.hset(f"{KEYS.tag}x:{crawl}", "expires", later)
    answer = await bench.feed.seeds("c/1", expires=later)
    assert set(answer.runs.values()) == {2}, "it would find nobody who leases what was there"
    await bench.tend()
    assert (await bench.state(OTHER)).state == "expired"
    assert await bench.worker.urls() == ["c/1"]


async def test_a_recovered_run_waits_for_all_of_its_seeds(bench: Bench) -> None:
    """While records of a lost Redis are read again, a partition that lags may bring more."""
    positions = bench.frontier.positions
    elsewhere = await bench.another_feed(1)
    for partition in (0, 1):
        fates = [Fate(crawl=CRAWL, run=7, is_over=False)]
        loss = Loss(topic_id="topic", kafka_partition=partition, offset=0, until=1, floor=7)
        await positions.restore(replace(loss, fates=fates))
    await bench.advance(5_000)
    await bench.feed.seeds("a/1")
    await bench.worker.crawl_all()
    for _ in range(3):
        await bench.advance(GRACE_MS)
        await bench.tend()
    assert not await endings(bench)
    assert dict((await elsewhere.seeds("a/2")).runs) == {0: 7}
    await bench.worker.crawl_all()
    await bench.advance(GRACE_MS)
    await bench.tend()
    assert [(one.kind, one.run) for one in await endings(bench)] == [("crawl_finished", 7)]


async def test_a_recovered_run_waits_for_partitions_that_nobody_has_begun(bench: Bench) -> None:
    """The first that is restored names all; those begin by their own call, and at any time."""
    positions = bench.frontier.positions
    fates = [Fate(crawl=CRAWL, run=7, is_over=False)]
    loss = Loss(topic_id="topic", kafka_partition=0, offset=0, until=1, floor=7, fates=fates)
    await positions.restore(replace(loss, behind={0: 1, 1: 2}))
    assert await positions.known() == {("topic", 0): 0}
    assert await positions.lost_until("topic", 1) is None
    await bench.advance(5_000)
    await bench.feed.seeds("a/1")
    await bench.worker.crawl_all()
    for _ in range(3):
        await bench.advance(GRACE_MS)
        await bench.tend()
    assert not await endings(bench)
    await positions.restore(replace(loss, kafka_partition=1, until=2, behind={1: 2}))
    await bench.advance(5_000)
    elsewhere = Feed(bench.frontier, partition=1)
    for url in ("a/2", "a/3"):
        await bench.tend()
        assert not await endings(bench)
        assert set((await elsewhere.seeds(url)).runs.values()) == {7}
        await bench.worker.crawl_all()
        await bench.advance(GRACE_MS)
    await bench.tend()
    assert [(one.kind, one.run) for one in await endings(bench)] == [("crawl_finished", 7)]


async def test_what_is_behind_is_never_named_less_than_before(bench: Bench) -> None:
    """A monitor that is late, and knows less of another's partition, takes nothing back."""
    positions = bench.frontier.positions
    fates = [Fate(crawl=CRAWL, run=7, is_over=False)]
    loss = Loss(topic_id="topic", kafka_partition=1, offset=0, until=2, floor=7, fates=fates)
    await positions.restore(loss)
    await positions.restore(replace(loss, kafka_partition=0, until=1, behind={0: 1, 1: 1}))
    await bench.advance(5_000)
    await bench.feed.seeds("a/1")
    elsewhere = Feed(bench.frontier, partition=1)
    await elsewhere.seeds("a/2")
    await bench.worker.crawl_all()
    await bench.advance(GRACE_MS)
    await bench.tend()
    assert not await endings(bench)
    await elsewhere.seeds("a/3")
    await bench.worker.crawl_all()
    await bench.advance(GRACE_MS)
    await bench.tend()
    assert [(one.kind, one.run) for one in await endings(bench)] == [("crawl_finished", 7)]


async def test_a_partition_that_is_never_read_again_holds_nothing_up_for_long(bench: Bench) -> None:
    """Ends recovered runs after an hour like others, though a partition is never read."""
    fates = [Fate(crawl=CRAWL, run=7, is_over=False)]
    loss = Loss(topic_id="topic", kafka_partition=1, offset=0, until=9, floor=7, fates=fates)
    await bench.frontier.positions.restore(loss)
    await bench.advance(5_000)
    await bench.feed.seeds("a/1")
    await bench.worker.crawl_all()
    for _ in range(3):
        await bench.advance(HOUR_MS // 2)
        await bench.tend()
    assert [(one.kind, one.run) for one in await endings(bench)] == [("crawl_finished", 7)]
