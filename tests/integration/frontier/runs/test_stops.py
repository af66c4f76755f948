"""Stopping: queued pages are removed at once, leased ones end, and which seeds a stop means."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace

from crawlstream.model.effects import Command, Outcome, PendingAction, Seed, Settle
from crawlstream_frontier.streams import Streams
from support.frontier.audit import audit, left_over
from support.frontier.bench import CRAWL, GRACE_MS, KEYS, Bench, Feed, endings, links, position_of
from support.spilling import Spills

pytest_plugins = ["support.frontier.fixtures"]

HOUR_MS = 3_600_000
OTHER = replace(CRAWL, crawlid="other")


async def stops(bench: Bench) -> list[PendingAction]:
    """The actions that wait for an answer; they are answered by this."""
    streams = Streams(bench.redis, KEYS, "reader")
    actions = list(await streams.actions(count=100, block_ms=0))
    await streams.answered([action.id for action in actions])
    return actions


async def test_stop_purges_what_waits_and_lets_what_is_held_end(bench: Bench) -> None:
    """The count of a stop is exact, and pages in flight are still counted by their outcome."""
    await bench.feed.seeds(*(f"a/{i}" for i in range(10)), "b/1")
    done, delayed, released = await bench.worker.lease(3)
    await bench.worker.requeue(delayed, delay_ms=60_000)
    await bench.feed.put(bench.feed.command("stop"))
    (stop,) = await stops(bench)
    assert (stop.name, stop.purged, stop.run) == ("stop", 9, 1)
    assert not await bench.worker.lease()
    assert (await bench.state()).state == "stopping"
    await bench.tend()
    await bench.worker.settle(done, links=[links("c", [1, 2])])
    assert not await endings(bench)
    await bench.worker.release(released)
    await bench.tend()
    (ending,) = await endings(bench)
    assert ending.kind == "crawl_stopped"
    names = ("admitted", "done", "stopped")
    assert [ending.counters[name] for name in names] == [11, 1, 10]
    assert ending.reasons["filtered"] == {"ended_run": 2}


async def test_spilled_links_of_a_page_that_a_stop_overtook_do_not_enter(bench: Bench) -> None:
    """Filters spilled links of a stopped page with it, though they come back before."""
    spills = Spills(bench.frontier.overflow)
    await bench.feed.seeds("a/1")
    (lease,) = await bench.worker.lease()
    settle = Settle(token=lease.token, outcome=Outcome.DONE, links=[links("b", range(3))])
    settle = spills.send(bench.worker, settle)
    await bench.feed.say("stop")
    done = await spills.recall()
    assert (done.applied, done.ignored, done.admitted) == (0, 1, 0)
    await bench.worker.exchange(settles=[settle])
    state = await bench.state()
    assert (state.admitted, dict(state.filtered_by_reason)) == (1, {"ended_run": 3})


async def test_a_stop_with_nothing_under_way_ends_at_once(bench: Bench) -> None:
    """A run that gets a stop has no grace time."""
    await bench.feed.seeds("a/1", "a/2")
    await bench.feed.put(bench.feed.command("stop"))
    await bench.tend()
    (ending,) = await endings(bench)
    assert (ending.kind, ending.counters["stopped"]) == ("crawl_stopped", 2)


async def test_a_feed_after_a_stop_in_one_batch_starts_afresh(bench: Bench) -> None:
    """Records take effect in their order: the seed after the stop is not swept with the others."""
    feed = bench.feed
    await feed.put(
        feed.seed("a/1"),
        feed.seed("a/2"),
        feed.command("stop"),
        feed.seed("a/3"),
    )
    await bench.tend()
    assert [one.counters["stopped"] for one in await endings(bench)] == [2]
    (lease,) = await bench.worker.lease(10)
    assert lease.run == 2
    await bench.worker.settle(lease, links=[links("a", [1, 2])])
    assert await bench.worker.crawl_all() == ["a/1", "a/2"]


async def test_what_is_swept_leaves_no_domain_behind(bench: Bench) -> None:
    """A single domain, like many: no worker wakes for work left in it."""
    await bench.feed.seeds("a/1")
    await bench.feed.say("stop")
    await bench.tend()
    assert not sum(of["domains"] for of in (await bench.frontier.queries.state()).backlog.values())


async def test_profiles_of_a_stopped_run_stay_while_a_page_is_held(bench: Bench) -> None:
    """The outcome of that page can be published with all that is needed to feed it again."""
    await bench.feed.seeds("a/1", "a/2")
    (lease,) = await bench.worker.lease()
    await bench.feed.say("stop")
    await bench.tend()
    assert await bench.redis.keys(KEYS.tag + "f:*")
    await bench.worker.settle(lease)
    await bench.tend()
    assert not await bench.redis.keys(KEYS.tag + "f:*")


async def test_two_stops_are_both_answered(bench: Bench) -> None:
    """The second stop of a crawl has nothing to purge, and says so."""
    await bench.feed.seeds("a/1")
    await bench.feed.put(bench.feed.command("stop"), bench.feed.command("stop"))
    first, second = await stops(bench)
    assert (first.purged, second.purged) == (1, None)
    await bench.tend()
    assert len(await endings(bench)) == 1


async def test_a_stop_of_an_unknown_crawl_changes_nothing(bench: Bench) -> None:
    """It is answered, and no crawl comes into being."""
    await bench.feed.put(bench.feed.command("stop"), bench.feed.command("info", None))
    assert [action.purged for action in await stops(bench)] == [None, None]
    assert await bench.frontier.queries.crawl_state(CRAWL) is None


async def test_a_stop_of_a_finished_crawl_drops_its_dedupe(bench: Bench) -> None:
    """Drops the duplicate filter of a finished crawl, so that a later feed starts over."""
    await bench.feed.seeds("a/1")
    await bench.worker.crawl_all()
    await bench.advance(GRACE_MS)
    await bench.tend()
    await bench.feed.put(bench.feed.command("stop"))
    (stop,) = await stops(bench)
    assert (stop.purged, stop.run) == (0, 1)
    await bench.feed.seeds("b/1")
    (lease,) = await bench.worker.lease()
    await bench.worker.settle(lease, links=[links("a", [1])])
    assert await bench.worker.crawl_all() == ["a/1"]
    assert [one.kind for one in await endings(bench)] == ["crawl_finished"]


async def test_a_stop_between_two_runs_spares_the_second(bench: Bench) -> None:
    """Options of the first seed mean nothing for the second, though the stop is read late."""
    elsewhere, late = await bench.another_feed(1), await bench.another_feed(2)
    await bench.feed.put(bench.feed.seed("a/1", timestamp_ms=1_000))
    await bench.worker.crawl_all()
    await bench.advance(GRACE_MS)
    await bench.tend()
    await elsewhere.put(elsewhere.seed("a/2", timestamp_ms=3_000))
    await late.put(late.command("stop", timestamp_ms=2_000))
    state = await bench.state()
    assert (state.run, state.state, state.queued) == (2, "running", 1)


async def test_a_seed_that_a_stop_covers_is_not_counted_in_a_later_run(bench: Bench) -> None:
    """Does not count a seed that a stop covers in the run that the same batch begins."""
    elsewhere = await bench.another_feed(1)
    await elsewhere.put(elsewhere.command("stop", timestamp_ms=2_000))
    await bench.feed.put(bench.feed.seed("a/1", timestamp_ms=3_000))
    await bench.worker.crawl_all()
    await bench.advance(GRACE_MS)
    await bench.tend()
    late = await bench.another_feed(2)
    answer = await late.put(
        late.seed("a/2", timestamp_ms=1_000), late.seed("a/3", timestamp_ms=4_000)
    )
    assert (dict(answer.refused), dict(answer.runs)) == ({0: "stopped"}, {1: 2})
    assert (await bench.state()).filtered_by_reason == {}


async def test_only_what_was_written_after_a_stop_is_read_again(bench: Bench) -> None:
    """A run whose latest seed elsewhere is older, in any order of reading, has nothing."""
    older, younger = await bench.another_feed(1), await bench.another_feed(2)
    await older.put(older.seed("a/1", timestamp_ms=1_000))
    await younger.put(
        younger.seed("a/2", timestamp_ms=3_000), younger.seed("a/3", timestamp_ms=1_000)
    )
    await bench.feed.put(bench.feed.command("stop", timestamp_ms=2_000))
    assert await bench.frontier.positions.again() == {("topic", 2): 0}


async def test_an_older_seed_of_another_partition_belongs_to_the_stopped_run(
    bench: Bench,
) -> None:
    """Kafka partitions are read at different speeds: the records' own times decide."""
    elsewhere = await bench.another_feed(1)
    await bench.feed.put(bench.feed.seed("a/1", timestamp_ms=1_000))
    await bench.feed.put(bench.feed.command("stop", timestamp_ms=3_000))
    late = await elsewhere.put(
        elsewhere.seed("a/2", timestamp_ms=2_000), elsewhere.seed("a/3", timestamp_ms=4_000)
    )
    assert (dict(late.refused), dict(late.runs)) == ({0: "stopped"}, {1: 2})
    own = await bench.feed.put(bench.feed.seed("a/4", timestamp_ms=2_500))
    assert dict(own.runs) == {2: 2}


async def test_a_stop_before_the_feed_it_means_is_not_forgotten(bench: Bench) -> None:
    """A stop that is read first still stops an older seed of another partition."""
    await bench.feed.put(bench.feed.command("stop", timestamp_ms=3_000))
    elsewhere = await bench.another_feed(1)
    answer = await elsewhere.put(elsewhere.seed("a/1", timestamp_ms=2_000))
    assert dict(answer.refused) == {0: "stopped"}
    assert await bench.frontier.queries.crawl_state(CRAWL) is None


async def test_an_older_stop_does_not_hide_a_newer_one(bench: Bench) -> None:
    """The later of two stops from different partitions counts."""
    await bench.feed.put(bench.feed.command("stop", timestamp_ms=5_000))
    second, third = await bench.another_feed(1), await bench.another_feed(2)
    await second.put(second.command("stop", timestamp_ms=1_000))
    answer = await third.put(third.seed("a/1", timestamp_ms=3_000))
    assert dict(answer.refused) == {0: "stopped"}


async def test_a_stop_does_not_end_a_run_that_was_fed_after_it(bench: Bench) -> None:
    """A run whose every seed is younger than a stop of another partition goes on."""
    elsewhere = await bench.another_feed(1)
    await elsewhere.put(elsewhere.seed("a/1", timestamp_ms=2_000))
    await bench.feed.put(bench.feed.command("stop", timestamp_ms=1_000))
    assert [action.purged for action in await stops(bench)] == [None]
    assert await bench.worker.urls() == ["a/1"]


async def test_a_stop_gives_back_what_was_fed_after_it(bench: Bench) -> None:
    """Keeps only the feed after the stop, in whatever order three partitions are read."""
    for order in itertools.permutations(range(3)):
        crawl = replace(CRAWL, crawlid="-".join(map(str, order)))
        first, second, third = [
            await bench.another_feed(3 * number, topic_id=crawl.crawlid) for number in range(3)
        ]
        records: list[tuple[Feed, Seed | Command]] = [
            (first, first.seed("old/1", crawl=crawl, timestamp_ms=1_000)),
            (second, second.command("stop", crawl, timestamp_ms=2_000)),
            (third, third.seed("new/1", crawl=crawl, timestamp_ms=3_000, maxdepth=3)),
        ]
        for number in order:
            feed, record = records[number]
            await feed.put(record)
            for each, _ in records:
                await each.read_again()
        state = await bench.state(crawl)
        assert (state.state, state.queued) == ("running", 1), order
    leased = [await bench.worker.lease() for _ in range(6)]
    assert {(lease.entry.url, lease.profile.maxdepth) for (lease,) in leased} == {
        ("http://new/1", 3)
    }


async def test_a_late_stop_takes_nothing_that_was_written_after_it(bench: Bench) -> None:
    """Keeps all that was written after a late stop, however long ago it was read."""
    await bench.feed.put(bench.feed.seed("a/old", timestamp_ms=1_000))
    for batch in range(30):
        urls = [f"a/{batch}-{number}" for number in range(5)]
        await bench.feed.seeds(*urls, timestamp_ms=3_000 + batch)
    late = await bench.another_feed(1)
    await late.put(late.command("stop", timestamp_ms=2_000))
    assert (await bench.state()).state == "stopping"
    await bench.tend()
    (ended,) = await endings(bench)
    assert dict(ended.positions) == {"topic:0": 0, "topic:1": 1}, "they have not taken effect"
    answer = await bench.feed.read_again()
    assert answer is not None
    assert (answer.applied, len(answer.runs), set(answer.runs.values())) == (0, 150, {2})
    assert await bench.feed.read_again() is None
    state = await bench.state()
    assert (state.run, state.state, state.queued) == (2, "running", 150)


async def test_seeds_are_read_again_in_parts(bench: Bench) -> None:
    """A death between two batches repeats nothing, and new seeds may come before the rest."""
    for number in range(4):
        await bench.feed.seeds(f"a/{number}", timestamp_ms=3_000 if number else 1_000)
    late = await bench.another_feed(1)
    await late.put(late.command("stop", timestamp_ms=2_000))
    await bench.feed.seeds("a/new", timestamp_ms=4_000)
    records = [bench.feed.records[offset] for offset in range(4)]
    first = replace(bench.feed.batch(*records[:2]), start=0, next=2)
    for _ in range(2):
        await bench.frontier.intake.apply(first)
    assert (await bench.state()).queued == 2
    await bench.feed.read_again()
    assert sorted(await bench.worker.urls()) == ["a/1", "a/2", "a/3", "a/new"]
    await late.put(late.command("stop", timestamp_ms=2_500))
    assert await bench.feed.read_again() is None, "all of the run is younger"


async def test_a_second_late_stop_means_all_younger_seeds_of_the_run_after_the_first(
    bench: Bench,
) -> None:
    """The seeds that began it, too, though they are below the position and ahead of older ones."""
    for number, time_ms in enumerate((1_000, 6_000, 5_000)):
        await bench.feed.seeds(f"a/{number}", timestamp_ms=time_ms)
    late, later = await bench.another_feed(1), await bench.another_feed(2)
    await late.put(late.command("stop", timestamp_ms=2_000))
    assert (again := await bench.feed.read_again())
    assert dict(again.runs) == {1: 2, 2: 2}
    await later.put(later.command("stop", timestamp_ms=5_500))
    assert (again := await bench.feed.read_again())
    assert dict(again.runs) == {1: 3}
    assert await bench.worker.urls() == ["a/1"]


async def test_a_stop_in_their_own_partition_means_seeds_to_be_read_again(bench: Bench) -> None:
    """It stands behind them: that a late stop did not mean them is of no use any more."""
    await bench.feed.seeds("a/old", timestamp_ms=1_000)
    await bench.feed.seeds("a/young", timestamp_ms=3_000)
    late = await bench.another_feed(1)
    await late.put(late.command("stop", timestamp_ms=2_000))
    await bench.feed.put(bench.feed.command("stop", timestamp_ms=1_500))
    assert await bench.feed.read_again() is None
    assert (await bench.state()).run == 1


async def test_a_run_after_a_stop_begins_where_its_seeds_stand(bench: Bench) -> None:
    """A new Redis reads those seeds again, as Kafka's records say, and the stopped ones not."""
    first, second = await bench.another_feed(0), await bench.another_feed(1)
    await second.seeds("new/1", timestamp_ms=3_000)
    await second.seeds("else/1", crawl=OTHER)
    answer = await first.put(
        first.seed("old/1", timestamp_ms=1_000), first.command("stop", timestamp_ms=2_000)
    )
    assert dict(answer.runs) == {0: 1}
    await second.read_again()
    begun = [one for one in await bench.owed() if one.kind == "crawl_started" and one.run == 2]
    assert [dict(one.positions) for one in begun] == [{"topic:0": 2, "topic:1": 0}]
    assert await position_of(bench.frontier, "topic", 1) == 2


async def test_a_stopped_crawl_leaves_nothing_where_nobody_works(bench: Bench) -> None:
    """Bands, indexes and delayed entries go with a stop though no worker ever asks."""
    await bench.rule(blacklist=["blocked"])
    await bench.feed.seeds("a/1", "blocked/1", "b/1")
    await bench.worker.lease(0)
    await bench.worker.lease(2)
    await bench.feed.seeds("c/1", not_before=time.time() + 1_000_000)
    await bench.feed.seeds("b/2", crawl=OTHER)
    await bench.worker.session.retire()
    for crawl in (CRAWL, OTHER):
        await bench.feed.put(bench.feed.command("stop", crawl))
    await bench.tend()
    await bench.advance(HOUR_MS)
    await bench.tend()
    state = await audit(bench.redis)
    names = {f"stop:{KEYS.crawl_field(crawl)}" for crawl in (CRAWL, OTHER)}
    assert left_over(state) == names
