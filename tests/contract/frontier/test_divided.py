"""Promises of a frontier with any number of partitions, wherever they are."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from crawlstream.model.inspection import PagePlace
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from crawlstream_frontier.partition_calls.coordinator import Coordinator
from support.contract.whole import Whole
from support.frontier.bench import CRAWL, links
from support.partitions.bench import DividedBench
from support.partitions.servers.divided import THREE

ONE_A_MINUTE = ThrottleRule(hits=1, window_s=60, moderated=False, concurrency=1)


async def test_every_page_is_fetched_once_and_accounted_for(bench: DividedBench) -> None:
    """Seeds and links, in domains of all partitions; the ledgers add up to one."""
    domains = bench.domains(each=2)
    await bench.seeds(*(f"{domain}/" for domain in domains))
    for one, lease in await bench.lease(10):
        domain = lease.entry.url.split("/")[2]
        await one.worker.settle(lease, links=[links(domain, ["a", "b", "a"])])
    state = await bench.state()
    assert (state.admitted, state.queued, state.done) == (
        3 * len(domains),
        2 * len(domains),
        len(domains),
    )
    assert sorted(domain.domain for domain in state.domains) == sorted(domains)
    assert {domain.total for domain in state.domains} == {2}
    assert await bench.crawl_all() == sorted(f"{d}/{path}" for d in domains for path in "ab")
    state = await bench.state()
    assert (state.done, state.pending, state.held, state.domains) == (3 * len(domains), 0, 0, [])
    assert state.missing_partitions == ()


async def test_a_rule_holds_for_each_domain_alone(bench: DividedBench) -> None:
    """A page per minute of each, however many workers call, and wherever the domain is."""
    await bench.rule(ONE_A_MINUTE)
    domains = bench.domains()
    await bench.seeds(*(f"{domain}/{path}" for domain in domains for path in "ab"))
    assert len(await bench.lease(10)) == len(domains)
    for one in bench.benches:
        assert await one.another_worker("w2").lease(10) == []
    report = await bench.frontiers.inspector.domain(domains[-1])
    assert (report.rule, report.unreported) == (ONE_A_MINUTE, 1)
    assert [queue.place for queue in report.queues] == ["waiting"]


async def test_a_page_is_found_where_it_is(bench: DividedBench) -> None:
    """Queued, seen, or never admitted: also in a partition that has nothing of the crawl."""
    first, last = bench.domains()[0], bench.domains(each=2)[-1]
    inspector = bench.frontiers.inspector
    assert await inspector.page(CRAWL, f"http://{last}/") is None
    await bench.seeds(f"{first}/")
    for domain, where in ((first, PagePlace.QUEUED), (last, PagePlace.NEVER)):
        page = await inspector.page(CRAWL, f"http://{domain}/")
        assert page is not None
        assert (page.where, page.run) == (where, 1)
    await bench.crawl_all()
    report = await inspector.url(f"http://{first}/", await inspector.crawls(10))
    assert [page.where for page in report.crawls] == [PagePlace.SEEN]
    assert report.domain is not None
    assert report.domain.domain == first


async def test_a_table_rules_everywhere(bench: DividedBench) -> None:
    """Rules are in force when every partition has them; an older table is refused."""
    rules = bench.frontiers.rules
    newer = ThrottleTable(default=ONE_A_MINUTE, rules={}, blacklist=frozenset(), czxid=1, mzxid=9)
    assert await rules.copy(newer)
    for frontier in bench.frontiers:
        assert await frontier.rules.table() == newer
    older = ThrottleTable(default=ONE_A_MINUTE, rules={}, blacklist=frozenset(), czxid=1, mzxid=8)
    assert not await rules.copy(older)
    await bench.frontiers.root.scripts.redis.delete(bench.frontiers.root.scripts.keys.table())
    assert await rules.table() is None


async def test_counters_are_of_all_partitions(bench: DividedBench) -> None:
    """Queued pages are added up; a worker counts once, and the memory of a server once."""
    domains = bench.domains(each=2)
    await bench.seeds(*(f"{domain}/{path}" for domain in domains for path in "ab"))
    await bench.lease(1)
    state = await bench.frontiers.queries.state()
    held = len(bench.benches)
    assert (state.queued, state.held, state.workers) == (2 * len(domains) - held, held, 1)
    assert (state.residual, state.is_full, state.rules_known) == (0, False, True)
    assert state.backlog == {"link": {"domains": len(domains)}}
    assert 0 < state.memory_used < 1 << 28
    (crawl,) = await bench.frontiers.queries.crawls(appid="app")
    assert await bench.frontiers.queries.states([CRAWL]) == {CRAWL: crawl}


async def test_a_dead_worker_loses_nothing(bench: DividedBench) -> None:
    """Its pages come again, in each partition by itself."""
    domains = bench.domains()
    await bench.seeds(*(f"{domain}/" for domain in domains))
    assert len(await bench.lease(5)) == len(domains)
    await bench.advance(60_000)
    for one in bench.benches:
        one.worker = one.another_worker("w2")
    await bench.tend()
    await bench.advance(60_000)
    assert await bench.crawl_all() == sorted(f"{domain}/" for domain in domains)
    assert (await bench.state()).done == len(domains)


@pytest.mark.parametrize("whole", [THREE], indirect=True)
async def test_what_takes_effect_during_a_look_is_not_read_again(
    whole: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Positions that partitions had before it do not mean that they have gone back."""
    again, domains = Coordinator.again, whole.domains()

    async def and_then_move(coordinator: Coordinator) -> Mapping[tuple[str, int], int]:
        found = await again(coordinator)
        if domains:
            await whole.seeds(f"{domains.pop()}/1")
        return found

    monkeypatch.setattr(Coordinator, "again", and_then_move)
    assert await whole._divided.misplaced() == []
    monkeypatch.undo()
    assert not domains
    assert await whole._divided.misplaced() == []
    redis, keys = (whole.frontiers[1].scripts.redis, whole.frontiers[1].scripts.keys)
    await redis.delete(keys.positions())
    assert await whole._divided.misplaced() == [("topic", 0)]
