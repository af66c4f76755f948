"""Budgets of domains, in a frontier of one partition, of three, and of three on a Redis Cluster."""

from __future__ import annotations

from crawlstream.model.effects import UNSENT, Outcome
from support.contract.whole import Whole
from support.frontier.bench import links, url_of
from support.partitions.bench import DividedBench

BUDGET = "domain_max_bytes"


async def test_a_spent_domain_is_left_and_the_others_go_on(whole: Whole) -> None:
    """Links of other partitions to it are filtered, its pages are skipped; the ending has both."""
    first, second, third = whole.domains()
    await whole.seeds(f"{first}/", f"{first}/2", f"{second}/", domain_max_bytes=1_000)
    leases = {url_of(lease): lease for lease in await whole.lease()}
    await whole.settle(leases[f"{first}/"], body_bytes=1_000)
    await whole.settle(leases[f"{second}/"], links(first, "ab"), links(third, "ab"), body_bytes=999)
    await whole.release(leases[f"{first}/2"])
    await whole.settled()
    state = await whole.state()
    assert (state.filtered_by_reason, state.spent_domains) == ({"domain_budget": 2}, {BUDGET: 1})
    for lease in await whole.lease():
        is_over = lease.domain == first
        assert lease.spent_budget == (BUDGET if is_over else "")
        outcome = Outcome.SKIPPED if is_over else Outcome.DONE
        reason = "domain_budget" if is_over else "2xx"
        await whole.settle(lease, outcome=outcome, reason=reason, sent_ms=UNSENT)
    await whole.finish()
    await whole.finish()
    (ending,) = [one for one in await whole.owed() if one.kind == "crawl_finished"]
    assert [ending.counters[name] for name in ("admitted", "done", "skipped")] == [5, 4, 1]
    assert ending.reasons["spent_domains"] == {BUDGET: 1}
    assert ending.reasons["skipped"] == {"domain_budget": 1}


async def test_the_next_run_has_the_budgets_again(whole: Whole) -> None:
    """In every partition."""
    domains = whole.domains()
    for run in (1, 2):
        await whole.seeds(*(f"{domain}/{run}" for domain in domains), domain_max_bytes=10)
        leases = await whole.lease()
        assert [(lease.run, lease.spent_budget) for lease in leases] == [(run, "")] * 3
        for lease in leases:
            await whole.settle(lease, body_bytes=10)
        assert (await whole.state()).spent_domains == {BUDGET: 3}
        await whole.finish()
        await whole.finish()
        assert await whole.endings() == [("crawl_finished", run)]


async def test_each_partition_counts_its_own_domains(bench: DividedBench) -> None:
    """Also on a Redis Cluster: the keys of a call are of one partition."""
    domains = bench.domains()
    urls = [f"{domain}/{n}" for domain in domains for n in range(2)]
    await bench.seeds(*urls, domain_max_bytes=100, domain_max_failed_share=0.5)
    for number, (its, lease) in enumerate(await bench.lease()):
        await its.worker.settle(lease, body_bytes=100 - number)
    spent = {lease.domain: lease.spent_budget for _, lease in await bench.lease()}
    assert sorted(spent.values()) == ["", "", BUDGET][-len(domains) :]
