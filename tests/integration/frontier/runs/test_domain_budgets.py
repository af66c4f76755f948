"""Budgets of the domains of a crawl: a domain that has spent one gets no further requests."""

from __future__ import annotations

from dataclasses import replace

from crawlstream.model.crawl import Budgets
from crawlstream.model.effects import UNSENT, Outcome
from support.frontier.bench import CRAWL, WIDE_OPEN, Bench, endings, links, url_of
from support.windows import group

pytest_plugins = ["support.frontier.fixtures"]

OTHER = replace(CRAWL, crawlid="other")
USED, LEDGER = "{cs0}used:1", "{cs0}x:1"


async def spent(bench: Bench, want: int = 100) -> dict[str, str]:
    """Lease pages; return the budgets that their domains have spent."""
    return {url_of(lease): lease.spent_budget for lease in await bench.worker.lease(want)}


async def test_a_domain_ends_with_its_bytes(bench: Bench) -> None:
    """Its leases name the budget, links to it are filtered; other domains go on."""
    await bench.feed.seeds("a/1", "a/2", "a/3", "b/1", domain_max_bytes=1_000)
    leases = {url_of(lease): lease for lease in await bench.worker.lease(4)}
    first, second, third, other = (leases[url] for url in ("a/1", "a/2", "a/3", "b/1"))
    await bench.worker.settle(first, body_bytes=999)
    assert (await bench.state()).spent_domains == {}
    await bench.worker.settle(second, body_bytes=1)
    await bench.worker.settle(other, links=[links("a", range(9)), links("b", range(2, 4))])
    assert await spent(bench) == {"b/2": "", "b/3": ""}
    await bench.worker.release(third)
    assert await spent(bench) == {"a/3": "domain_max_bytes"}
    state = await bench.state()
    assert state.filtered_by_reason == {"domain_budget": 6, "duplicate": 3}
    assert state.spent_domains == {"domain_max_bytes": 1}
    assert state.state == "running"


async def test_a_domain_ends_with_its_failed_pages(bench: Bench) -> None:
    """From 100 pages of its own on; pages of others do not count."""
    seeds = [f"a/{n}" for n in range(102)] + [f"b/{n}" for n in range(99)]
    await bench.feed.seeds(*seeds, domain_max_failed_share=0.5)
    leases = await bench.worker.lease(201)
    a = [lease for lease in leases if lease.domain == "a"]
    b = [lease for lease in leases if lease.domain == "b"]
    await bench.worker.settle(*b, outcome=Outcome.FAILED)
    await bench.worker.settle(*a[:50])
    await bench.worker.settle(*a[50:99], outcome=Outcome.FAILED)
    await bench.worker.release(*a[100:])
    (last, next_) = await bench.worker.lease(2)
    assert {last.spent_budget, next_.spent_budget} == {""}
    await bench.worker.settle(a[99], outcome=Outcome.FAILED)
    await bench.worker.release(last, next_)
    assert set((await spent(bench)).values()) == {"domain_max_failed_share"}


async def test_a_spent_budget_stays_spent(bench: Bench) -> None:
    """A page in flight lowers the share of the failed ones again."""
    await bench.feed.seeds(*(f"a/{n}" for n in range(103)), domain_max_failed_share=0.5)
    *leases, late, last = await bench.worker.lease(102)
    await bench.worker.settle(*leases[:50])
    await bench.worker.settle(*leases[50:], outcome=Outcome.FAILED)
    await bench.worker.settle(late, last)
    assert await spent(bench) == {"a/102": "domain_max_failed_share"}
    assert (await bench.state()).spent_domains == {"domain_max_failed_share": 1}


async def test_pages_that_are_skipped_use_nothing(bench: Bench) -> None:
    """The run ends with them, and its ending has both counts."""
    await bench.feed.seeds("a/1", "a/2", "a/3", domain_max_bytes=10)
    first, *others = await bench.worker.lease(3)
    await bench.worker.settle(first, body_bytes=10)
    await bench.worker.settle(*others, outcome=Outcome.SKIPPED, sent_ms=UNSENT)
    assert await bench.redis.hget(USED, "a") == b"10 1 0 domain_max_bytes"
    await bench.advance(10_000)
    await bench.tend()
    (ending,) = await endings(bench)
    assert (ending.kind, ending.budget) == ("crawl_finished", "")
    assert ending.counters["skipped"] == 2
    assert ending.reasons["spent_domains"] == {"domain_max_bytes": 1}


async def test_the_next_run_has_its_budgets_again(bench: Bench) -> None:
    """Their use ends with the run, and nothing of it is left."""
    for run in (1, 2):
        await bench.feed.seeds("a/1", domain_max_bytes=10)
        (lease,) = await bench.worker.lease()
        assert (lease.run, lease.spent_budget, lease.recovered) == (run, "", False)
        await bench.worker.settle(lease, body_bytes=10)
        assert (await bench.state()).spent_domains == {"domain_max_bytes": 1}
        await bench.advance(10_000)
        await bench.tend()
        assert not await bench.redis.exists(USED)


async def test_a_stop_leaves_nothing(bench: Bench) -> None:
    """Pages in flight, which end later, bring no key back."""
    await bench.feed.seeds("a/1", "a/2", "a/3", domain_max_bytes=10)
    first, second, _ = await bench.worker.lease(3)
    await bench.worker.settle(first, body_bytes=10)
    await bench.feed.say("stop", CRAWL)
    await bench.tend()
    assert not await bench.redis.exists(USED)
    await bench.worker.settle(second, body_bytes=10)
    assert not await bench.redis.exists(USED)


async def test_a_crawl_without_such_budgets_has_no_trace_of_them(bench: Bench) -> None:
    """Neither the key nor the mark in the ledger, which costs a look."""
    await bench.feed.seeds("a/1", domain_max_pages=5)
    (lease,) = await bench.worker.lease()
    await bench.worker.settle(lease, body_bytes=600, links=[links("a", range(3))])
    assert not await bench.redis.exists(USED)
    assert not await bench.redis.hexists(LEDGER, "recovered")


async def test_sites_of_a_divided_domain_share_its_budget(bench: Bench) -> None:
    """A rule of their own gives them a queue of their own, and no budget."""
    rules = {"one.a.example": WIDE_OPEN}
    await bench.rule(WIDE_OPEN, rules)
    await bench.feed.seeds("two.a.example/", domain_max_bytes=10)
    (lease,) = await bench.worker.lease()
    group = replace(links("one.a.example", "xy"), domain="a.example", site="one.a.example")
    await bench.worker.settle(lease, links=[group])
    first, second = await bench.worker.lease(2)
    assert {first.domain, second.domain} == {"one.a.example"}
    await bench.worker.settle(first, body_bytes=10)
    await bench.worker.release(second)
    assert await spent(bench) == {url_of(second): "domain_max_bytes"}


async def test_a_lease_through_a_gate_names_the_budget(bench: Bench) -> None:
    """Its domain is answered together with the gate; links to it are filtered, too."""
    await bench.rule(WIDE_OPEN, groups={"hoster": group(WIDE_OPEN, "example")})
    await bench.feed.seeds("a.example/1", "a.example/2", "b.example/1", domain_max_bytes=10)
    leases = {url_of(lease): lease for lease in await bench.worker.lease(3)}
    assert {lease.gate for lease in leases.values()} == {"=hoster"}
    await bench.worker.settle(leases["a.example/1"], body_bytes=10)
    await bench.worker.settle(leases["b.example/1"], links=[links("a.example", "xyz")])
    await bench.worker.release(leases["a.example/2"])
    (lease,) = await bench.worker.lease(9)
    assert (lease.gate, lease.spent_budget) == ("=hoster", "domain_max_bytes")
    assert (await bench.state()).filtered_by_reason == {"domain_budget": 3}


async def test_budgets_are_of_each_crawl_and_the_lower_of_two_holds(bench: Bench) -> None:
    """In one call, too, which ends pages of several crawls and seeds."""
    await bench.feed.seeds("a/1", domain_max_bytes=1_000)
    await bench.feed.seeds("a/2", "a/3", domain_max_bytes=100)
    await bench.feed.seeds("a/1", "a/2", crawl=OTHER, domain_max_bytes=500)
    leases = {(lease.crawl, url_of(lease)): lease for lease in await bench.worker.lease(5)}
    waiting = [leases.pop((CRAWL, "a/3")), leases.pop((OTHER, "a/2"))]
    await bench.worker.settle(*leases.values(), body_bytes=60)
    await bench.worker.release(*waiting)
    told = {(lease.crawl == CRAWL, lease.spent_budget) for lease in await bench.worker.lease(5)}
    assert told == {(True, "domain_max_bytes"), (False, "")}


async def test_a_settle_that_is_repeated_is_counted_once(bench: Bench) -> None:
    """Its reply was lost; a restart of Redis takes nothing either."""
    await bench.feed.seeds("a/1", "a/2", domain_max_bytes=1_000)
    (lease,) = await bench.worker.lease()
    for _ in range(3):
        await bench.worker.settle(lease, body_bytes=600, links=[links("b", "x")])
    await bench.pretend_restart()
    assert await bench.redis.hget(USED, "a") == b"600 1 0"


async def test_leases_whose_answer_was_lost_name_the_budget_again(bench: Bench) -> None:
    """The worker repeats its call."""
    await bench.feed.seeds("a/1", "a/2", domain_max_bytes=1)
    (lease,) = await bench.worker.lease()
    await bench.worker.settle(lease, body_bytes=1)
    (lease,) = await bench.worker.lease()
    bench.worker.session._call -= 1
    (again,) = await bench.worker.lease()
    assert (again.token, again.spent_budget) == (lease.token, "domain_max_bytes")


async def test_what_is_in_flight_is_all_that_comes_after_the_budget(bench: Bench) -> None:
    """However the calls of several workers fall."""
    await bench.feed.seeds(*(f"a/{n}" for n in range(60)), domain_max_bytes=1_000)
    workers = [bench.worker, *(bench.another_worker(f"other-{n}") for n in range(3))]
    held = [await worker.lease(4) for worker in workers]
    size, used = 90, 0
    for _ in range(20):
        for worker, its in zip(workers, held, strict=True):
            for lease in [its.pop() for _ in its[:2]]:
                if lease.spent_budget:
                    await worker.settle(lease, outcome=Outcome.SKIPPED, sent_ms=UNSENT)
                else:
                    await worker.settle(lease, body_bytes=size)
                    used += size
            its.extend(await worker.lease(4 - len(its)))
    assert 1_000 <= used < 1_000 + 16 * size
    state = await bench.state()
    assert (state.body_bytes, state.done + state.skipped) == (used, 60)


async def test_marks_of_a_run_do_not_mix(bench: Bench) -> None:
    """A field says that it began again, has budgets, and that domains have used theirs."""
    await bench.feed.seeds("a/1", "a/2", "a/3", domain_max_bytes=10)
    first, second = await bench.worker.lease(2)
    await bench.worker.settle(first, body_bytes=10)
    assert await bench.redis.hget(LEDGER, "recovered") == b"12"
    await bench.redis.hset(LEDGER, "recovered", "13")
    (third,) = await bench.worker.lease()
    assert (third.recovered, third.spent_budget) == (True, "domain_max_bytes")
    await bench.worker.release(third)
    await bench.feed.seeds("a/4", budgets=Budgets(max_bytes=20))
    assert await bench.redis.hget(LEDGER, "recovered") == b"15"
    await bench.worker.settle(second, body_bytes=10)
    assert not await bench.worker.lease()
    assert (await bench.state()).spending == {"max_bytes": {"budget": 20, "spent": 20}}
