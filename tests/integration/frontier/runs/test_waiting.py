"""Pages that wait too long, and too many pages: every run ends, and no cap is silent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crawlstream.model.effects import OutboxRecord, Release, SentRequest
from crawlstream.model.throttle_table import Reaction, SiteReaction
from support.frontier.bench import CRAWL, GRACE_MS, KEYS, Bench, links

pytest_plugins = ["support.frontier.fixtures"]

OTHER = replace(CRAWL, crawlid="other")
DAY_MS = 86_400_000


async def failures(bench: Bench) -> list[OutboxRecord]:
    """Pages that failed with a reason since the last time."""
    return [one for one in await bench.owed() if one.kind == "page_failed"]


async def wait(bench: Bench, ms: int) -> None:
    """Let time pass; the frontier is looked after all the while."""
    for _ in range(30):
        await bench.tend()
        await bench.advance(ms // 30 + 1)
    await bench.tend()


# Too long.


async def test_what_no_worker_fetches_fails_by_name(bench: Bench) -> None:
    """Fails waiting pages after MAX_WAIT, each with its whole record, and ends the run."""
    await bench.feed.seeds("a/1", "a/2", "b/1", priority=7)
    await wait(bench, DAY_MS - 3_600_000)
    assert await failures(bench) == []
    await wait(bench, 2 * 3_600_000)
    owed = list(await bench.owed())
    failed = [one for one in owed if one.kind == "page_failed"]
    assert [one.reason for one in failed] == ["no_worker"] * 3
    urls = sorted(one.lease.entry.url for one in failed if one.lease)
    assert urls == ["http://a/1", "http://a/2", "http://b/1"]
    state = await bench.state()
    assert (state.failed, state.queued, state.failed_by_reason) == (3, 0, {"no_worker": 3})
    await bench.advance(GRACE_MS)
    await bench.tend()
    assert [one.kind for one in [*owed, *await bench.owed()]][-1] == "crawl_finished"
    assert not await bench.redis.exists(*(KEYS.tag + name for name in ("stalled", "abandon")))


async def test_progress_of_any_kind_begins_the_wait_anew(bench: Bench) -> None:
    """An entry that was fed in the last hour is not failed because its run is old."""
    await bench.feed.seeds("a/1")
    for i in range(4):
        await wait(bench, DAY_MS // 2)
        await bench.feed.seeds(f"a/again{i}")
    assert await failures(bench) == []


@pytest.mark.parametrize("held_back", ["pause", "blacklist", "worker"])
async def test_what_is_held_back_by_a_person_or_by_others_waits(
    bench: Bench, held_back: str
) -> None:
    """A paused crawl, a blocked domain; a crawl whose turn does not come while workers live."""
    await bench.feed.seeds("a/1")
    if held_back == "pause":
        await bench.feed.say("pause")
    elif held_back == "blacklist":
        await bench.rule(blacklist=["a"])
    for _ in range(60):
        if held_back == "worker":
            await bench.feed.seeds("b/1", "b/2", crawl=OTHER, priority=90)
            await bench.worker.settle(*await bench.worker.lease(2))
        await bench.tend()
        await bench.advance(DAY_MS // 20)
    assert await failures(bench) == []
    assert (await bench.state()).queued == 1


async def test_a_domain_that_does_not_answer_fails_by_name(bench: Bench) -> None:
    """While workers live, its queued pages are given up after a quarter of an hour of silence."""
    await bench.feed.seeds(*(f"a/{i}" for i in range(30)), "b/1")
    silence = SiteReaction(Reaction.SILENCE)
    for _ in range(60):
        for lease in await bench.worker.lease():
            if lease.domain == "a":
                report = SentRequest(lease.token, 0, received=True, heard=silence)
                await bench.worker.exchange(sent=[report], releases=[Release(token=lease.token)])
        await bench.tend()
        await bench.advance(60_000)
    assert {one.reason for one in await failures(bench)} == {"domain_unreachable"}
    state = await bench.state()
    assert (state.failed, state.queued, state.held) == (30, 0, 1)


async def test_much_is_given_up_in_steps(bench: Bench) -> None:
    """No more pages than can be published: beyond that, the rest waits."""
    await bench.feed.seeds("seed/1", maxdepth=1)
    (lease,) = await bench.worker.lease()
    await bench.worker.settle(lease, links=[links(f"d{i}", range(40)) for i in range(20)])
    await bench.worker.session.retire()
    await bench.redis.xtrim(KEYS.outbox(), maxlen=0)
    await wait(bench, DAY_MS + 2 * 3_600_000)
    assert (await bench.state()).failed == 800
    assert len(await failures(bench)) == 800


async def test_waiting_can_be_allowed_for_ever(bench: Bench) -> None:
    """MAX_WAIT 0."""
    bench.limit(max_wait_ms=0)
    await bench.feed.seeds("a/1")
    await wait(bench, 3 * DAY_MS)
    assert (await bench.state()).queued == 1


# Too much.


async def test_links_beyond_the_cap_of_a_crawl_are_filtered_and_counted(bench: Bench) -> None:
    """They leave no trace, so that they may enter when there is room again."""
    bench.limit(most_queued_of_crawl=5)
    await bench.tend()
    await bench.feed.seeds("a/seed", maxdepth=1)
    (lease,) = await bench.worker.lease()
    await bench.worker.settle(lease, links=[links("a", range(4)), links("b", range(4))])
    state = await bench.state()
    assert (state.queued, state.filtered_by_reason) == (5, {"crawl_full": 3})
    held = await bench.worker.lease(5)
    await bench.worker.settle(held[0], links=[links("a", range(4)), links("b", range(4))])
    assert (await bench.state()).queued == 3
    assert (await bench.state()).admitted == 9


async def test_what_waits_already_counts_for_the_cap_of_a_crawl(bench: Bench) -> None:
    """Counts waiting pages of the same call and of earlier ones for the limit of a crawl."""
    bench.limit(most_queued_of_crawl=2)
    await bench.tend()
    refused = [dict((await bench.feed.seeds(f"a/{number}")).refused) for number in range(3)]
    assert refused == [{}, {}, {2: "crawl_full"}]


async def test_seeds_beyond_the_cap_are_refused_by_name(bench: Bench) -> None:
    """Delayed ones count; retries and what a worker gives back always return."""
    bench.limit(most_queued_of_crawl=2)
    await bench.tend()
    answer = await bench.feed.seeds("a/1", "a/2", "a/3")
    assert dict(answer.refused) == {2: "crawl_full"}
    again, back = await bench.worker.lease(2)
    assert dict((await bench.feed.seeds("a/4", "a/5")).refused) == {}
    await bench.worker.requeue(again, delay_ms=1_000)
    await bench.worker.release(back)
    assert (await bench.state()).pending == 4


async def test_the_cap_of_the_cluster_counts_all_crawls(bench: Bench) -> None:
    """A full frontier concerns every crawl; the crawl of the link counts it."""
    bench.limit(most_queued=3)
    await bench.tend()
    await bench.feed.seeds("a/1", "a/2")
    answer = await bench.feed.seeds("a/1", "b/1", crawl=OTHER, maxdepth=1)
    assert list(answer.refused.values()) == ["frontier_full"]
    assert (await bench.state(OTHER)).filtered_by_reason == {"frontier_full": 1}
    bench.limit(most_queued=0)
    await bench.tend()
    assert dict((await bench.feed.seeds("b/2", "b/3", crawl=OTHER)).refused) == {}


async def test_the_last_place_in_the_cluster_is_one(bench: Bench) -> None:
    """The smallest cap there is holds, too."""
    bench.limit(most_queued=1)
    await bench.tend()
    assert list((await bench.feed.seeds("a/1", "a/2")).refused.values()) == ["frontier_full"]
    assert (await bench.state()).queued == 1


async def test_of_two_caps_that_are_reached_the_narrower_is_told(bench: Bench) -> None:
    """A crawl that has all that it may have would gain nothing by more room for all."""
    bench.limit(most_queued=1, most_queued_of_crawl=1)
    await bench.tend()
    assert list((await bench.feed.seeds("a/1", "a/2")).refused.values()) == ["crawl_full"]


async def test_the_target_of_a_redirect_enters_a_full_frontier(bench: Bench) -> None:
    """It takes the place of the page that was held."""
    bench.limit(most_queued_of_crawl=1)
    await bench.tend()
    await bench.feed.seeds("a/1")
    (lease,) = await bench.worker.lease()
    await bench.feed.seeds("a/2")
    await bench.worker.settle(lease, links=[links("b", ["target"], counts=False)])
    assert (await bench.state()).queued == 2
