"""Budgets of crawls: a run that has spent one ends as if its time were over."""

from __future__ import annotations

import time

from crawlstream.model.crawl import Budgets
from crawlstream.model.effects import Outcome
from support.frontier.bench import Bench, endings, links

pytest_plugins = ["support.frontier.fixtures"]

HOUR_S = 3_600


async def test_a_budget_of_time_ends_a_run(bench: Bench) -> None:
    """Waiting pages expire, the leased one ends well, and the ending names the budget."""
    await bench.feed.seeds("a/1", "a/2", budgets=Budgets(max_seconds=HOUR_S))
    state = await bench.state()
    assert 0 <= state.expires - (state.started_at + HOUR_S) < 1
    (step,) = await bench.tend()
    assert step.next_ms is not None
    assert HOUR_S * 1000 - 60_000 < step.next_ms <= HOUR_S * 1000 + 1_000
    (lease,) = await bench.worker.lease()
    await over(bench)
    assert not await bench.worker.lease()
    await bench.tend()
    await bench.worker.settle(lease)
    await bench.tend()
    (ending,) = await endings(bench)
    assert (ending.kind, ending.budget) == ("crawl_expired", "max_seconds")
    assert [ending.counters[name] for name in ("done", "expired")] == [1, 1]


async def over(bench: Bench) -> None:
    """Let the time of the first crawl have come."""
    await bench.redis.hset("{cs0}x:1", "expires", int(time.time()) - 1)
    await bench.redis.zadd("{cs0}expiry", {"1": int(time.time()) - 1})


async def test_of_two_ends_the_first_one_counts(bench: Bench) -> None:
    """A run ends by its `expires` or its budget of time; the ending names that budget."""
    soon, late = int(time.time()) + 60, int(time.time()) + 2 * HOUR_S
    await bench.feed.seeds("a/1", "a/2", expires=soon, budgets=Budgets(max_seconds=HOUR_S))
    assert (await bench.state()).expires == soon
    await over(bench)
    await bench.tend()
    (ending,) = await endings(bench)
    assert (ending.kind, ending.budget) == ("crawl_expired", "")
    await bench.feed.seeds("a/1", expires=late, budgets=Budgets(max_seconds=HOUR_S))
    assert soon < (await bench.state()).expires < late


async def test_the_latest_seed_with_an_end_sets_it(bench: Bench) -> None:
    """Its budget counts from the beginning of the run; a seed without an end changes nothing."""
    await bench.feed.seeds("a/1", budgets=Budgets(max_seconds=HOUR_S))
    first = (await bench.state()).expires
    await bench.feed.seeds("a/2")
    assert (await bench.state()).expires == first
    await bench.feed.seeds("a/3", budgets=Budgets(max_seconds=2 * HOUR_S))
    assert (await bench.state()).expires == first + HOUR_S
    later = int(time.time()) + 10 * HOUR_S
    await bench.feed.seeds("a/4", expires=later)
    assert (await bench.state()).expires == later
    await over(bench)
    await bench.tend()
    (ending,) = await endings(bench)
    assert ending.budget == ""


async def test_a_seed_after_the_time_opens_a_run_with_a_time_of_its_own(bench: Bench) -> None:
    """The budget of the ended run is not left over."""
    await bench.feed.seeds("a/1", budgets=Budgets(max_seconds=HOUR_S))
    await over(bench)
    answer = await bench.feed.seeds("a/2", budgets=Budgets(max_seconds=2 * HOUR_S))
    assert dict(answer.runs) == {1: 2}
    state = await bench.state()
    assert 0 <= state.expires - (state.started_at + 2 * HOUR_S) < 1
    await bench.tend()
    assert [(one.run, one.budget) for one in await endings(bench)] == [(1, "max_seconds")]
    assert await bench.worker.urls() == ["a/2"]


async def test_the_next_run_has_no_budget_unless_a_seed_sets_it(bench: Bench) -> None:
    """Budgets of time belong to their run."""
    await bench.feed.seeds("a/1", budgets=Budgets(max_seconds=HOUR_S))
    await over(bench)
    await bench.feed.seeds("a/2")
    assert (await bench.state()).expires == 0


async def test_bytes_end_a_run(bench: Bench) -> None:
    """Once they are reached nothing is leased; only what is in flight still comes."""
    await bench.feed.seeds(*(f"a/{n}" for n in range(9)), budgets=Budgets(max_bytes=1_000))
    first, second, third = await bench.worker.lease(3)
    await bench.worker.settle(first, body_bytes=400)
    assert (await bench.state()).spending == {"max_bytes": {"budget": 1_000, "spent": 400}}
    (fourth,) = await bench.worker.lease()
    await bench.worker.settle(second, body_bytes=600)
    assert not await bench.worker.lease()
    await bench.tend()
    assert (await bench.state()).state == "expiring"
    await bench.worker.settle(third, body_bytes=600, links=[links("b", range(9))])
    await bench.worker.release(fourth)
    await bench.tend()
    (ending,) = await endings(bench)
    assert (ending.kind, ending.budget) == ("crawl_expired", "max_bytes")
    counted = [ending.counters[name] for name in ("admitted", "done", "expired", "bytes")]
    assert counted == [9, 3, 6, 1_600]


async def test_a_run_is_ended_by_its_last_byte_and_not_by_its_next_page(bench: Bench) -> None:
    """The call that settles wakes the care of the frontier, also if nothing may be leased now."""
    await bench.feed.seeds("a/1", "a/2", budgets=Budgets(max_bytes=10))
    (lease,) = await bench.worker.lease()
    await bench.feed.say("pause")
    await bench.worker.settle(lease, body_bytes=10)
    await bench.tend()
    await bench.tend()
    (ending,) = await endings(bench)
    assert (ending.kind, ending.budget) == ("crawl_expired", "max_bytes")


async def test_a_settle_that_is_repeated_counts_its_bytes_once(bench: Bench) -> None:
    """Its reply was lost: the worker sends it again, and the run goes on."""
    await bench.feed.seeds("a/1", "a/2", budgets=Budgets(max_bytes=1_000))
    (lease,) = await bench.worker.lease()
    for _ in range(3):
        await bench.worker.settle(lease, body_bytes=600)
    assert (await bench.state()).body_bytes == 600
    assert len(await bench.worker.lease()) == 1


async def test_the_share_of_failed_pages_ends_a_run(bench: Bench) -> None:
    """From 100 pages on; a run whose seeds all fail ends at the hundredth."""
    await bench.feed.seeds(*(f"a/{n}" for n in range(150)), budgets=Budgets(max_failed_share=0.5))
    for number in range(100):
        (lease,) = await bench.worker.lease()
        await bench.worker.settle(lease, outcome=Outcome.FAILED)
        assert (await bench.state()).state == "running", number
    assert not await bench.worker.lease()
    await bench.tend()
    await bench.tend()
    (ending,) = await endings(bench)
    assert (ending.kind, ending.budget) == ("crawl_expired", "max_failed_share")
    assert [ending.counters[name] for name in ("failed", "expired")] == [100, 50]
    assert ending.reasons["failed"] == {"dns": 100}


async def test_a_share_below_the_budget_ends_nothing(bench: Bench) -> None:
    """A run may fail as often as its budget says, but for one page."""
    await bench.feed.seeds(*(f"a/{n}" for n in range(120)), budgets=Budgets(max_failed_share=0.5))
    for number, lease in enumerate(await bench.worker.lease(120)):
        failed = number % 2 and number > 1
        outcome = Outcome.FAILED if failed else Outcome.DONE
        await bench.worker.settle(lease, outcome=outcome)
    await bench.advance(10_000)
    await bench.tend()
    (ending,) = await endings(bench)
    assert (ending.kind, ending.counters["failed"]) == ("crawl_finished", 59)


async def test_the_latest_seed_with_budgets_sets_them_all(bench: Bench) -> None:
    """By its record, whatever the order; a budget below what is spent ends the run at once."""
    await bench.feed.seeds("a/1", "a/2", "a/3", timestamp_ms=5, budgets=Budgets(max_bytes=500))
    await bench.feed.seeds("a/4", timestamp_ms=4, budgets=Budgets(max_bytes=10))
    (lease,) = await bench.worker.lease()
    await bench.worker.settle(lease, body_bytes=400)
    (lease,) = await bench.worker.lease()
    await bench.feed.seeds("a/5", timestamp_ms=6, budgets=Budgets(max_failed_share=0.5))
    await bench.worker.settle(lease, body_bytes=400)
    assert len(await bench.worker.lease()) == 1
    await bench.feed.seeds("a/6", timestamp_ms=7, budgets=Budgets(max_bytes=800))
    await bench.tend()
    assert (await bench.state()).state == "expiring"


async def test_what_other_workers_have_in_flight_is_all_that_comes_after_the_budget(
    bench: Bench,
) -> None:
    """However the calls of several workers fall, they lease nothing once the budget is reached."""
    await bench.feed.seeds(*(f"d{n}/1" for n in range(60)), budgets=Budgets(max_bytes=1_000))
    workers = [bench.worker, *(bench.another_worker(f"other-{n}") for n in range(3))]
    held = [await worker.lease(4) for worker in workers]
    size, spent, slots = 90, 0, 16
    for turn in range(20):
        for worker, its in zip(workers, held, strict=True):
            for lease in [its.pop() for _ in its[:2]]:
                await worker.settle(lease, body_bytes=size)
                spent += size
            if turn < 19:
                its.extend(await worker.lease(4 - len(its)))
    assert 1_000 <= spent < 1_000 + slots * size
    assert not any(held)
    await bench.tend()
    await bench.tend()
    (ending,) = await endings(bench)
    assert (ending.budget, ending.counters["bytes"]) == ("max_bytes", spent)


async def test_the_next_run_has_its_bytes_again(bench: Bench) -> None:
    """A seed after the end opens it; what was spent is of the former run."""
    await bench.feed.seeds("a/1", budgets=Budgets(max_bytes=10))
    (lease,) = await bench.worker.lease()
    await bench.worker.settle(lease, body_bytes=10)
    answer = await bench.feed.seeds("a/2", "a/3", budgets=Budgets(max_bytes=10))
    assert {*dict(answer.runs).values()} == {2}
    (lease,) = await bench.worker.lease()
    await bench.worker.settle(lease, body_bytes=9)
    (lease,) = await bench.worker.lease()
    assert lease.run == 2
    await bench.tend()
    assert [(one.run, one.budget) for one in await endings(bench)] == [(1, "max_bytes")]


async def test_a_run_that_began_again_keeps_its_budgets(bench: Bench) -> None:
    """The mark of a recovered run and that of its budgets are one field."""
    await bench.feed.seeds("a/1", "a/2", "a/3", budgets=Budgets(max_bytes=10))
    assert await bench.redis.hget("{cs0}x:1", "recovered") == b"2"
    (lease,) = await bench.worker.lease()
    assert not lease.recovered
    await bench.redis.hset("{cs0}x:1", "recovered", "3")
    (again,) = await bench.worker.lease()
    assert again.recovered
    await bench.worker.settle(lease, body_bytes=10)
    assert not await bench.worker.lease()


async def test_a_run_that_has_spent_a_budget_stays_over(bench: Bench) -> None:
    """A page in flight lowers the share of the failed ones again: the run still ends by it."""
    await bench.feed.seeds(*(f"a/{n}" for n in range(150)), budgets=Budgets(max_failed_share=0.5))
    last, *leases = await bench.worker.lease(101)
    await bench.worker.settle(*leases[:50])
    await bench.worker.settle(*leases[50:], outcome=Outcome.FAILED)
    assert not await bench.worker.lease()
    await bench.worker.settle(last)
    assert not await bench.worker.lease()
    await bench.tend()
    await bench.tend()
    (ending,) = await endings(bench)
    assert (ending.kind, ending.budget) == ("crawl_expired", "max_failed_share")
    assert [ending.counters[name] for name in ("done", "failed")] == [51, 50]


async def test_a_run_is_shown_with_the_time_at_which_its_budget_was_spent(bench: Bench) -> None:
    """Not with the mark that it is over."""
    await bench.feed.seeds("a/1", "a/2", "a/3", budgets=Budgets(max_bytes=10))
    first, _ = await bench.worker.lease(2)
    await bench.worker.settle(first, body_bytes=10)
    await bench.tend()
    state = await bench.state()
    assert state.state == "expiring"
    assert abs(state.expires - time.time()) < HOUR_S


async def test_a_restart_of_redis_keeps_what_was_spent(bench: Bench) -> None:
    """The bytes before and after it are one sum."""
    await bench.feed.seeds("a/1", "a/2", "a/3", budgets=Budgets(max_bytes=1_000))
    first, second = await bench.worker.lease(2)
    await bench.worker.settle(first, body_bytes=600)
    await bench.pretend_restart()
    assert (await bench.state()).spending == {"max_bytes": {"budget": 1_000, "spent": 600}}
    await bench.worker.settle(second, body_bytes=400)
    await bench.tend()
    await bench.tend()
    (ending,) = await endings(bench)
    assert (ending.budget, ending.counters["bytes"]) == ("max_bytes", 1_000)
