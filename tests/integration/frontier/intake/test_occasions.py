"""Records that name an occasion take effect once, whichever process feeds them and how often."""

from __future__ import annotations

import time
from dataclasses import replace

from crawlstream.keys import FrontierKeys
from crawlstream.model.crawl import CrawlKey, FiringKey
from crawlstream.model.effects import AppliedSeed
from crawlstream.model.recurring.schedule import STOP_NUMBER, Occasion
from crawlstream.model.run_marks import RunMark
from support.frontier.bench import CRAWL, GRACE_MS, KEYS, Bench

pytest_plugins = ["support.frontier.fixtures"]

NOW = int(time.time())
WEEK_S = 7 * 24 * 3600


def occasion(n: int = 0, at: int = NOW, name: str = "nightly") -> Occasion:
    """A record of a firing."""
    return Occasion(name, at, n)


def key(at: int, part: int = 0) -> str:
    """Where the bits of a firing are."""
    return f"{KEYS.tag}occasion:app:nightly:{at}:{part}"


async def test_an_occasion_is_admitted_once(bench: Bench) -> None:
    """A feed that is repeated adds nothing; what it had not fed yet enters."""
    feed = bench.feed
    await feed.put(*(feed.seed(f"a.com/{n}", occasion=occasion(n)) for n in range(3)))
    answer = await feed.put(*(feed.seed(f"a.com/{n}", occasion=occasion(n)) for n in range(5)))
    assert (answer.repeated, answer.applied, len(answer.runs)) == (3, 5, 2)
    assert not answer.refused
    assert (await bench.state()).admitted == 5


async def test_it_is_one_whatever_the_partition_and_the_crawl(bench: Bench) -> None:
    """Schedule, time and number name it, and nothing else."""
    other = await bench.another_feed(1)
    await bench.feed.put(bench.feed.seed("a.com/", occasion=occasion()))
    again = CrawlKey("link", "app", "another")
    answer = await other.put(other.seed("b.com/", crawl=again, occasion=occasion()))
    assert answer.repeated == 1
    assert await bench.frontier.queries.crawl_state(again) is None


async def test_others_are_others(bench: Bench) -> None:
    """Another number, time, name or application is another occasion."""
    feed, elsewhere = bench.feed, CrawlKey("link", "other app", "crawl")
    first = feed.seed("a.com/0", occasion=occasion())
    others = [
        feed.seed("a.com/1", occasion=occasion(1)),
        feed.seed("a.com/2", occasion=occasion(4096)),
        feed.seed("a.com/3", occasion=occasion(at=NOW + 60)),
        feed.seed("a.com/4", occasion=occasion(name="weekly")),
        feed.seed("a.com/5", crawl=elsewhere, occasion=occasion()),
        feed.seed("a.com/6"),
    ]
    assert (await feed.put(first, *others)).repeated == 0


async def test_a_batch_that_is_applied_again_is_no_repetition(bench: Bench) -> None:
    """The answer was lost: the same batch gets the same answer, and counts nothing."""
    feed = bench.feed
    batch = feed.batch(feed.seed("a.com/", occasion=occasion()))
    await bench.frontier.intake.apply(batch)
    answer = await bench.frontier.intake.apply(batch)
    assert (answer.applied, answer.repeated) == (0, 0)


async def test_seeds_that_a_late_stop_did_not_mean_enter_again(bench: Bench) -> None:
    """Records read again on purpose do not count as repetitions, though their bit is set."""
    feed = bench.feed
    other = await bench.another_feed(1)
    await feed.put(feed.seed("a.com/old", timestamp_ms=1_000))
    await feed.put(feed.seed("a.com/young", timestamp_ms=3_000, occasion=occasion()))
    await other.put(other.command("stop", timestamp_ms=2_000))
    answer = await feed.read_again()
    assert answer is not None
    assert answer.repeated == 0
    assert (await bench.state()).queued == 1


async def test_a_number_costs_little_and_ends(bench: Bench) -> None:
    """The largest number takes half a KiB; all are forgotten a week and a day after the time."""
    feed, later = bench.feed, NOW + WEEK_S
    await feed.put(
        feed.seed("a.com/0", occasion=occasion(999_999)),
        feed.seed("a.com/1", occasion=occasion(at=later)),
    )
    assert await bench.redis.strlen(key(NOW, 999_999 // 4096)) <= 512
    lives = [await bench.redis.ttl(name) for name in (key(NOW, 999_999 // 4096), key(later))]
    day = 24 * 3600
    assert WEEK_S < lives[0] <= WEEK_S + day + 1
    assert 2 * WEEK_S < lives[1] <= 2 * WEEK_S + day + 1


async def test_a_stop_of_a_firing_stops_once(bench: Bench) -> None:
    """Seeds fed between it and its repetition stay."""
    feed = bench.feed
    stop = occasion(STOP_NUMBER)
    await feed.seeds("a.com/old")
    await feed.put(feed.command("stop", occasion=stop), feed.seed("a.com/new"))
    answer = await feed.put(feed.command("stop", occasion=stop))
    assert answer.repeated == 1
    assert (await bench.state()).queued == 1
    actions = await bench.reader.actions(count=10, block_ms=0)
    assert [action.purged for action in actions] == [1, None]


async def test_what_took_effect_in_a_lost_redis_is_seen(bench: Bench) -> None:
    """Its seed is not crawled again, and a repetition of it is one."""
    feed = bench.feed
    feed.next += 2
    seen = [
        AppliedSeed(offset=n, timestamp_ms=1, appid="app", occasion=occasion()) for n in range(2)
    ]
    assert (await feed.put(*seen)).repeated == 0
    answer = await feed.put(feed.seed("a.com/", occasion=occasion()))
    assert answer.repeated == 1
    assert await bench.frontier.queries.crawl_state(CRAWL) is None


async def test_a_repetition_that_wants_an_answer_gets_one(bench: Bench) -> None:
    """It is accepted under the uuid it has, into the run that the first one is in."""
    feed = bench.feed
    await feed.put(feed.seed("a.com/", occasion=occasion(), uuid="first"))
    await feed.put(feed.seed("a.com/", occasion=occasion(), uuid="second"))
    told = [one for one in await bench.owed() if one.kind == "accepted"]
    assert [(one.uuid, one.run) for one in told] == [("first", 1), ("second", 1)]


def test_names_cannot_run_into_each_other() -> None:
    """An application's name is encoded; a schedule's holds no colon."""
    assert FrontierKeys.schedule_field("a:b", "c") == "a%3Ab:c"


async def test_a_run_is_known_by_the_latest_firing_that_fed_it(bench: Bench) -> None:
    """Its pages and outbox records name that; the next run begins without one."""
    feed = bench.feed
    await feed.put(feed.seed("a.com/1", occasion=occasion(at=NOW)))
    (lease,) = await bench.worker.lease()
    assert lease.firing == FiringKey("nightly", NOW)
    later, earlier = occasion(1, at=NOW + 60), occasion(1, at=NOW - 60)
    await feed.put(feed.seed("b.com/2", occasion=later), feed.seed("c.com/3", occasion=earlier))
    await feed.seeds("d.com/4")
    assert {one.firing for one in await bench.worker.lease(9)} == {FiringKey("nightly", NOW + 60)}
    await bench.worker.settle(*bench.worker.leases.values())
    await bench.advance(GRACE_MS)
    await bench.tend()
    began, ended = await bench.owed()
    assert (began.firing, began.seen) == (FiringKey("nightly", NOW), {})
    assert (ended.firing, ended.seen) == (FiringKey("nightly", NOW + 60), {0: b"\x40"})
    await feed.seeds("a.com/5")
    (lease,) = await bench.worker.lease()
    assert lease.firing is None


async def test_what_took_effect_is_told_to_a_redis_that_forgot_it(bench: Bench) -> None:
    """Bits of other records stay; those of a firing long ago are not remembered."""
    crawl, firing = replace(CRAWL, appid="app"), FiringKey("nightly", NOW)
    over = RunMark(
        crawl=crawl, state="finished", run=1, firing=firing, seen={0: b"\x60", 1: b"\x80"}
    )
    old = replace(over, firing=FiringKey("nightly", NOW - 9 * 24 * 3600))
    feed = bench.feed
    await feed.put(feed.seed("a.com/0", occasion=occasion(0)))
    for _ in range(2):
        await bench.frontier.schedules.remind([over, old])
    numbers = (0, 1, 2, 3, 4096, 4097)
    answer = await feed.put(*(feed.seed(f"a.com/{n}", occasion=occasion(n)) for n in numbers))
    assert answer.repeated == 4
    assert not await bench.redis.exists(key(NOW - 9 * 24 * 3600))
    for part in (0, 1):
        assert WEEK_S < await bench.redis.ttl(key(NOW, part)) <= WEEK_S + 24 * 3600
