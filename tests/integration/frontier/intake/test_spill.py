"""Children that find Redis crowded wait in Kafka, and come back."""

from __future__ import annotations

import pytest

from crawlstream.errors import FrontierFull, PositionGap
from crawlstream.model.crawl import Lease
from crawlstream.model.effects import Outcome, Settle
from crawlstream.model.inspection import PagePlace
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream_frontier.codec.link_batch import LINKS_PER_RECORD
from crawlstream_frontier.codec.spill import read_spill
from crawlstream_frontier.codec.values import pack, unpack
from crawlstream_frontier.layout import create_frontier
from support.frontier.audit import audit, left_over
from support.frontier.bench import CRAWL, GRACE_MS, KEYS, WIDE_OPEN, Bench, links, url_of
from support.spilling import Spills, filled

pytest_plugins = ["support.frontier.fixtures"]


@pytest.fixture
def spills(bench: Bench) -> Spills:
    """An empty topic."""
    return Spills(bench.frontier.overflow)


@pytest.fixture
async def parent(bench: Bench) -> Lease:
    """The held seed of a crawl."""
    await bench.feed.seeds("a/seed")
    (lease,) = await bench.worker.lease()
    return lease


@pytest.mark.parametrize(("share", "is_crowded"), [(0.85, False), (0.95, True), (1.1, True)])
async def test_children_have_no_room_in_a_crowded_redis(
    bench: Bench, parent: Lease, share: float, *, is_crowded: bool
) -> None:
    """Settles no page with links in a Redis that is nine tenths full; all else works."""
    async with filled(bench.redis, share):
        answer = await bench.worker.settle(parent, links=[links("b", range(10))])
        assert answer.is_crowded == is_crowded
        assert answer.refused == ({parent.token} if is_crowded else set())
        state = await bench.state()
        assert (state.held, state.done) == ((1, 0) if is_crowded else (0, 1))
        assert state.admitted == (1 if is_crowded else 11)
    if is_crowded:
        assert not (await bench.worker.settle(parent, links=[links("b", range(10))])).refused
        assert (await bench.state()).admitted == 11


@pytest.mark.parametrize("count", [800, 1_500])
async def test_a_page_with_very_many_links_has_no_room_either(
    bench: Bench, spills: Spills, parent: Lease, count: int
) -> None:
    """Its links are spilled, however many records that takes, and come back each once."""
    children = links("b", range(count))
    async with filled(bench.redis, 0.95):
        assert (await bench.worker.settle(parent, links=[children])).refused == {parent.token}
        with pytest.raises(FrontierFull):
            await bench.worker.session.put_links(parent.token, [children])
        await spills.settle(bench.worker, parent, children)
    assert len(spills.records) == -(-count // LINKS_PER_RECORD)
    assert (await bench.state()).spilled == count
    assert (await spills.recall()).admitted == count
    assert sorted(await bench.worker.crawl_all()) == sorted(f"b/{i}" for i in range(count))


async def test_what_is_spilled_is_admitted_and_waits(
    bench: Bench, spills: Spills, parent: Lease
) -> None:
    """The run does not end before it has come back, in its order, below the right profile."""
    await spills.settle(bench.worker, parent, links("b", range(3)), links("c", [1], priority=60))
    await bench.advance(10_000)
    await bench.tend()
    state = await bench.state()
    assert (state.state, state.admitted, state.done, state.spilled) == ("running", 5, 1, 4)
    assert (await bench.frontier.queries.crawls())[0].pending == 4
    assert (await bench.frontier.queries.state()).spilled == 4
    page = await bench.frontier.inspector.page(CRAWL, "http://b/1")
    assert page is not None
    assert page.where is PagePlace.SPILLED
    done = await spills.recall()
    assert (done.applied, done.ignored, done.admitted) == (1, 0, 4)
    assert await bench.worker.crawl_all() == ["c/1", "b/0", "b/1", "b/2"]
    await bench.advance(10_000)
    await bench.tend()
    assert (await bench.state()).state == "finished"
    assert await bench.events() == ["crawl_started", "crawl_finished"]


async def test_dedupe_and_caps_are_applied_when_it_comes_back(bench: Bench, spills: Spills) -> None:
    """Links that are duplicates by then, or beyond a cap, leave the ledger and are filtered."""
    await bench.feed.put(bench.feed.seed("a/seed", domain_max_pages=3))
    (lease,) = await bench.worker.lease()
    await spills.settle(bench.worker, lease, links("a", range(4)), links("b", range(5)))
    await bench.feed.put(bench.feed.seed("b/0", domain_max_pages=3))
    assert (await bench.state()).admitted == 11
    assert (await spills.recall()).admitted == 4
    state = await bench.state()
    assert (state.admitted, state.spilled, state.queued) == (6, 0, 5)
    assert dict(state.filtered_by_reason) == {"duplicate": 1, "domain_max_pages": 4}


async def test_a_repetition_changes_nothing(bench: Bench, spills: Spills, parent: Lease) -> None:
    """A settle or batch whose answer was lost is repeated; a double record changes nothing."""
    settle = Settle(token=parent.token, outcome=Outcome.DONE, links=[links("b", range(3))])
    settle = spills.send(bench.worker, settle)
    spills.records *= 2
    await bench.worker.exchange(settles=[settle])
    assert (await bench.worker.exchange(settles=[settle])).stale == {parent.token}
    assert (await bench.state()).spilled == 3
    done = await spills.recall()
    assert (done.applied, done.ignored, done.admitted) == (1, 1, 3)
    spills.next = 0
    done = await spills.recall()
    assert (done.applied, done.ignored, done.admitted) == (0, 0, 0)
    assert (await bench.state()).admitted == 4


async def test_a_record_may_come_back_before_its_page_is_settled(
    bench: Bench, spills: Spills, parent: Lease
) -> None:
    """Its links enter then, and the settle does not count them again."""
    settle = Settle(token=parent.token, outcome=Outcome.DONE, links=[links("b", range(3))])
    settle = spills.send(bench.worker, settle)
    assert (await spills.recall()).admitted == 3
    await audit(bench.redis)
    await bench.worker.exchange(settles=[settle])
    state = await bench.state()
    assert (state.admitted, state.spilled, state.queued, state.done) == (4, 0, 3, 1)
    assert not [name for name in (await audit(bench.redis)).values if name.startswith("recalled")]


async def test_the_record_of_a_page_that_returned_says_nothing(
    bench: Bench, spills: Spills, parent: Lease
) -> None:
    """A worker died after sending: another one finds the links, and none enters twice."""
    settle = Settle(token=parent.token, outcome=Outcome.DONE, links=[links("b", range(3))])
    stale = spills.send(bench.worker, settle)
    assert await bench.blame("w1", "") == 1
    other = bench.another_worker("w2")
    (again,) = await other.lease()
    assert (await bench.worker.exchange(settles=[stale])).stale == {parent.token}
    assert (await spills.recall()).ignored == 1
    await spills.settle(other, again, links("b", range(3)))
    assert (await spills.recall()).admitted == 3
    assert sorted(await other.crawl_all()) == ["b/0", "b/1", "b/2"]


async def test_a_worker_dies_after_its_record_came_back(
    bench: Bench, spills: Spills, parent: Lease
) -> None:
    """The links are in; when its page is fetched again they are duplicates, and no key is left."""
    settle = Settle(token=parent.token, outcome=Outcome.DONE, links=[links("b", range(3))])
    spills.send(bench.worker, settle)
    assert (await spills.recall()).admitted == 3
    await bench.blame("w1", "")
    other = bench.another_worker("w2")
    held = {url_of(lease): lease for lease in await other.lease(10)}
    await spills.settle(other, held.pop("a/seed"), links("b", range(3)))
    await other.settle(*held.values())
    assert (await spills.recall()).admitted == 0
    state = await bench.state()
    assert (state.admitted, state.done) == (4, 4)
    assert not [name for name in (await audit(bench.redis)).values if name.startswith("recalled")]


@pytest.mark.parametrize("ending", ["stopped", "expired"])
async def test_a_run_that_ends_early_takes_what_is_spilled_with_it(
    bench: Bench, spills: Spills, parent: Lease, ending: str
) -> None:
    """It counts as stopped or expired at once; its records say nothing when they come."""
    await spills.settle(bench.worker, parent, links("b", range(3)))
    if ending == "stopped":
        await bench.feed.say("stop")
    else:
        await bench.feed.put(bench.feed.seed("a/last", expires=1))
    await bench.tend()
    state = await bench.state()
    assert (state.state, state.spilled) == (ending, 0)
    assert getattr(state, ending) == (3 if ending == "stopped" else 4)
    done = await spills.recall()
    assert (done.applied, done.ignored) == (0, 1)
    assert (await bench.state()).admitted == state.admitted
    assert not (await audit(bench.redis)).get("spills:1")


async def test_the_next_run_does_not_take_what_an_ended_one_spilled(
    bench: Bench, spills: Spills, parent: Lease
) -> None:
    """A crawl that is stopped and fed again begins without it."""
    await spills.settle(bench.worker, parent, links("b", range(3)))
    await bench.feed.say("stop")
    await bench.feed.seeds("a/seed")
    assert (await spills.recall()).ignored == 1
    assert await bench.worker.crawl_all() == ["a/seed"]


async def test_links_of_a_page_that_a_stop_overtook_are_filtered(
    bench: Bench, spills: Spills, parent: Lease
) -> None:
    """Filters links of a page that a stop overtook, as if they had not been spilled."""
    await bench.feed.say("stop")
    await spills.settle(bench.worker, parent, links("b", range(3)))
    state = await bench.state()
    assert (state.admitted, dict(state.filtered_by_reason)) == (1, {"ended_run": 3})


async def test_an_emptied_redis_knows_no_record_of_the_old_one(
    bench: Bench, spills: Spills, parent: Lease
) -> None:
    """Its seeds are crawled again, and find their links again; each enters once."""
    unsettled = Settle(token=parent.token, outcome=Outcome.DONE, links=[links("c", [1])])
    spills.send(bench.worker, unsettled)
    await spills.settle(bench.worker, parent, links("b", range(3)))
    await bench.redis.flushdb()
    await create_frontier(bench.frontier.scripts)
    await bench.rule()
    with pytest.raises(PositionGap) as gap:
        await spills.overflow.recall(spills.batch(1, 2))
    assert gap.value.position == -1
    another = await bench.another_feed(0)
    await another.seeds("a/seed")
    (lease,) = await bench.worker.lease()
    assert (await spills.recall()).ignored == 2
    await spills.settle(bench.worker, lease, links("b", range(3)))
    assert (await spills.recall()).admitted == 3
    assert len(await bench.worker.crawl_all()) == 3


async def test_a_gap_in_the_records_is_told(bench: Bench, spills: Spills, parent: Lease) -> None:
    """A reader that skips records that never took effect is sent back to them."""
    await spills.settle(bench.worker, parent, links("b", range(LINKS_PER_RECORD + 1)))
    await spills.overflow.begin("spills", 0, 0)
    with pytest.raises(PositionGap) as gap:
        await spills.overflow.recall(spills.batch(1, 2))
    assert gap.value.position == 0
    assert (await spills.recall()).applied == 2
    assert await spills.overflow.positions() == {("spills", 0): 2}


async def test_there_is_room_below_seven_tenths(
    bench: Bench, spills: Spills, parent: Lease
) -> None:
    """Recalls links below seven tenths, or below nine tenths if nothing else can be leased."""
    overflow = spills.overflow
    assert (await overflow.state()).spilled == 0
    await spills.settle(bench.worker, parent, links("b", range(3)))
    assert (await overflow.state()).spilled == 3
    for share, has_room in ((0.65, True), (0.8, True), (0.95, False)):
        async with filled(bench.redis, share):
            assert (await overflow.state()).has_room == has_room
    await bench.feed.seeds("a/other")
    for share, has_room in ((0.65, True), (0.8, False)):
        async with filled(bench.redis, share):
            assert (await overflow.state()).has_room == has_room
    await bench.rule(blacklist=["a"])
    assert not await bench.worker.lease()
    async with filled(bench.redis, 0.8):
        assert (await overflow.state()).has_room


async def test_nothing_is_left_in_the_end(bench: Bench, spills: Spills, parent: Lease) -> None:
    """All keys of spilling have an owner that removes them."""
    await spills.settle(bench.worker, parent, links("b", range(3)))
    await spills.recall()
    await bench.worker.crawl_all()
    for ms in (3_100, 61_000, 3_600_000, 3_600_000, 3_600_000):
        await bench.advance(ms)
        await bench.tend()
    assert left_over(await audit(bench.redis)) == set()


@pytest.mark.parametrize(
    "value",
    [None, b"", b"{}", b"\x93\x01", pack([2]), pack([1, "w", "1-1", 0, "1", 1, -1, -1, [["a"]]])],
)
def test_a_foreign_record_is_refused(value: bytes | None) -> None:
    """Foreign records are reported before the frontier sees them."""
    with pytest.raises(ValueError, match=r"^not a "):
        read_spill(0, value)


async def test_a_large_page_is_many_records(bench: Bench, parent: Lease) -> None:
    """Records are bounded in bytes, too."""
    children = links("b", [f"{i}/" + "x" * 1_900 for i in range(400)])
    settle = Settle(token=parent.token, outcome=Outcome.DONE, links=[children])
    spilled = bench.worker.session.spill(settle)
    assert len(spilled) > 1
    assert max(len(spill.value) for spill in spilled) < 300_000
    entries = [entry for one in spilled for group in unpack(one.value)[-1] for entry in group[-1]]
    assert len(entries) == sum(spill.links for spill in spilled) == 400


async def after_an_hour(bench: Bench) -> None:
    """Care has looked at every run."""
    await bench.advance(3_600_000)
    await bench.tend()


@pytest.mark.parametrize("max_wait_ms", [0, 86_400_000])
async def test_a_run_ends_though_kafka_has_lost_its_links(
    bench: Bench, spills: Spills, parent: Lease, max_wait_ms: int
) -> None:
    """They fail with a reason once recall has passed their place; all of them are reported."""
    bench.limit(max_wait_ms=max_wait_ms)
    await spills.settle(bench.worker, parent, links("b", range(LINKS_PER_RECORD + 20)))
    await spills.skip(1)
    assert not await spills.overflow.passed(await spills.overflow.moment(), "spills", {0: 2})
    await after_an_hour(bench)
    assert (await bench.state()).spilled == LINKS_PER_RECORD + 20
    await spills.skip(1)
    assert await spills.overflow.passed(await spills.overflow.moment(), "spills", {0: 2})
    await bench.events()
    await after_an_hour(bench)
    state = await bench.state()
    assert (state.spilled, state.failed_by_reason) == (0, {"spill_lost": LINKS_PER_RECORD + 20})
    await bench.advance(GRACE_MS)
    await bench.tend()
    owed = await bench.owed()
    assert [one.kind for one in owed] == ["spill_lost", "spill_lost", "crawl_finished"]
    assert {one.links for one in owed[:-1]} == {LINKS_PER_RECORD, 20}


async def test_links_that_are_still_to_come_are_not_lost(
    bench: Bench, spills: Spills, parent: Lease
) -> None:
    """Waits for links that were registered later, however long."""
    moment = await spills.overflow.moment()
    await bench.advance(1)
    await spills.settle(bench.worker, parent, links("b", range(3)))
    assert await spills.overflow.passed(moment, "spills", {0: 0}) is False
    await spills.overflow.begin("spills", 0, 0)
    assert await spills.overflow.passed(moment, "spills", {0: 0})
    for _ in range(3):
        await after_an_hour(bench)
    assert (await bench.state()).spilled == 3
    assert (await spills.recall()).admitted == 3


async def test_what_was_measured_before_a_restart_says_nothing(
    bench: Bench, spills: Spills
) -> None:
    """Redis may have come back with an older clock, and an older position."""
    moment = await spills.overflow.moment()
    await spills.overflow.begin("spills", 0, 0)
    await bench.pretend_restart()
    assert await spills.overflow.passed(moment, "spills", {0: 0})
    assert await bench.redis.hget(KEYS.meta(), "passed") is None


async def test_links_that_an_older_version_spilled_are_found_lost_as_well(
    bench: Bench, spills: Spills, parent: Lease
) -> None:
    """An hour later, for it did not note when that was."""
    await spills.settle(bench.worker, parent, links("b", range(3)))
    await spills.skip(1)
    key = KEYS.tag + "spills:1"
    ((name, _),) = (await bench.redis.hgetall(key)).items()
    await bench.redis.hset(key, name, "3")
    for spilled in (3, 0):
        assert await spills.overflow.passed(await spills.overflow.moment(), "spills", {0: 1})
        await after_an_hour(bench)
        assert (await bench.state()).spilled == spilled


async def test_one_slow_site_does_not_keep_the_links_of_others_out(
    bench: Bench, spills: Spills, parent: Lease
) -> None:
    """Delayed entries make no room; entries due now, or within a second, do."""
    await spills.settle(bench.worker, parent, links("quick", range(3)))
    slow = ThrottleRule(hits=1, window_s=60, moderated=False)
    await bench.rule(WIDE_OPEN, {"slow": slow})
    await bench.feed.seeds("slow/1", "slow/2", "slow/3")
    async with filled(bench.redis, 0.85):
        assert not (await spills.overflow.state()).has_room
        assert await bench.worker.urls() == ["slow/1"]
        assert (await spills.overflow.state()).has_room
        await bench.advance(59_500)
        assert not (await spills.overflow.state()).has_room
        assert await bench.worker.urls(1) == []
    async with filled(bench.redis, 0.95):
        assert not (await spills.overflow.state()).has_room


async def test_what_is_delayed_does_not_keep_links_out(
    bench: Bench, spills: Spills, parent: Lease
) -> None:
    """A retry that is due in a minute does not count as work now; one that is due at once does."""
    await spills.settle(bench.worker, parent, links("quick", range(3)))
    await bench.feed.seeds("a/other")
    (lease,) = await bench.worker.lease()
    await bench.worker.requeue(lease, delay_ms=60_000)
    assert not await bench.worker.lease()
    async with filled(bench.redis, 0.85):
        assert (await spills.overflow.state()).has_room
        await bench.advance(59_500)
        assert not (await spills.overflow.state()).has_room
