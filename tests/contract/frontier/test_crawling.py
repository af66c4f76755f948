"""Promises of a frontier to clients and workers, of one partition and of three alike: pages."""

from __future__ import annotations

from itertools import pairwise

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.effects import Outcome
from crawlstream.model.inspection import PagePlace
from crawlstream.model.throttle_table import ThrottleRule
from support.contract.whole import Whole
from support.frontier.bench import CRAWL, links, redirect, url_of

ONE_AT_A_TIME = ThrottleRule(hits=1_000, window_s=1, moderated=False, concurrency=1)
TWO_A_MINUTE = ThrottleRule(hits=2, window_s=60, moderated=False, concurrency=9)
OTHER = CrawlKey("link", "app", "other")


async def test_a_link_enters_once_wherever_it_was_found(whole: Whole) -> None:
    """Pages of all partitions lead to the same pages in all of them."""
    domains = whole.domains()
    everywhere = [links(domain, ["x", "y", "x"]) for domain in domains]
    await whole.seeds(*(f"{domain}/" for domain in domains))
    for lease in await whole.lease():
        await whole.settle(lease, *everywhere)
    await whole.settled()
    state = await whole.state()
    assert (state.admitted, state.queued, state.done) == (9, 6, 3)
    assert state.filtered_by_reason["duplicate"] == 3 * 9 - 6
    assert await whole.crawl_all() == sorted(f"{d}/{path}" for d in domains for path in "xy")


async def test_a_link_leads_on_across_domains(whole: Whole) -> None:
    """Depth by depth, each page in another partition than the one before it."""
    domains = whole.domains(each=2)
    await whole.seeds(f"{domains[0]}/")
    for here, there in pairwise(domains):
        (lease,) = await whole.lease()
        assert url_of(lease) == f"{here}/"
        await whole.settle(lease, links(there, [""]))
        await whole.settled()
    (last,) = await whole.lease()
    assert (url_of(last), last.entry.depth) == (f"{domains[-1]}/", 1)


async def test_a_seed_enters_each_time_and_crawls_share_nothing(whole: Whole) -> None:
    """Pages seen by one crawl are new to another; a seed is fetched though it is known."""
    domains = whole.domains()
    urls = [f"{domain}/" for domain in domains]
    for crawl in (CRAWL, CRAWL, OTHER):
        await whole.seeds(*urls, crawl=crawl)
        assert await whole.crawl_all() == sorted(urls)
    assert (await whole.state()).done == 2 * len(urls)
    assert (await whole.state(OTHER)).done == len(urls)


async def test_a_higher_priority_comes_first_in_each_partition(whole: Whole) -> None:
    """Leases higher priorities first in each partition, also links that came from elsewhere."""
    domains = whole.domains()
    await whole.seeds(f"{domains[0]}/")
    (lease,) = await whole.lease()
    groups = [links(d, [p], priority=p) for d in domains for p in (10, 90, 50)]
    await whole.settle(lease, *groups)
    await whole.settled()
    for p in whole.every:
        got = [
            (await whole.session(p).exchange(want=1)).leases[0]
            for _ in range(9 // len(whole.every))
        ]
        assert [lease.priority for lease in got] == sorted(
            [90, 50, 10] * (len(got) // 3), reverse=True
        )


async def test_windows_and_concurrency_hold_for_each_domain(whole: Whole) -> None:
    """The limit binds all workers: a second one gets nothing more, until time has passed."""
    domains = whole.domains()
    await whole.rule(TWO_A_MINUTE)
    await whole.seeds(*(f"{domain}/{n}" for domain in domains for n in range(4)))
    first = await whole.lease()
    assert len(first) == 2 * len(domains)
    assert await whole.lease(worker="w2") == []
    for lease in first:
        await whole.settle(lease, sent_ms=0)
    await whole.advance(59_000)
    assert await whole.lease(worker="w2") == []
    await whole.advance(1_001)
    assert len(await whole.lease(worker="w2")) == 2 * len(domains)


async def test_one_at_a_time_waits_for_the_page_under_way(whole: Whole) -> None:
    """Each domain has one; its next page comes when the first one has ended."""
    domains = whole.domains()
    await whole.rule(ONE_AT_A_TIME)
    await whole.seeds(*(f"{domain}/{n}" for domain in domains for n in range(2)))
    first = await whole.lease()
    assert len(first) == len(domains)
    assert await whole.lease() == []
    for lease in first:
        await whole.settle(lease, sent_ms=0)
    await whole.advance(2_000)
    assert len(await whole.lease()) == len(domains)


async def test_a_retry_comes_later_and_lower_a_release_at_once(whole: Whole) -> None:
    """The first counts as an attempt, the second leaves no mark."""
    domains = whole.domains()
    await whole.seeds(*(f"{domain}/" for domain in domains))
    for lease in await whole.lease():
        await whole.requeue(lease, delay_ms=5_000)
    assert await whole.lease() == []
    await whole.advance(5_001)
    await whole.tend()
    again = await whole.lease()
    assert [lease.retries for lease in again] == [1] * len(domains)
    assert {lease.priority for lease in again} == {40}
    for lease in again:
        await whole.release(lease)
    assert [lease.retries for lease in await whole.lease()] == [1] * len(domains)
    assert (await whole.state()).held == len(domains)


async def test_what_a_dead_worker_held_comes_again_and_its_words_are_stale(whole: Whole) -> None:
    """Returns leases of a dead worker in each partition, and ignores its later reports."""
    domains = whole.domains()
    await whole.seeds(*(f"{domain}/" for domain in domains))
    dead = await whole.lease(worker="dead")
    await whole.advance(31_000)
    await whole.tend()
    again = await whole.lease()
    assert sorted(map(url_of, again)) == sorted(map(url_of, dead))
    for lease in dead:
        answer = await whole.settle(lease, links(lease.domain, ["late"]), worker="dead")
        assert answer.stale == {lease.token}
    await whole.settled()
    for lease in again:
        await whole.settle(lease)
    state = await whole.state()
    assert (state.admitted, state.done, state.held) == (3, 3, 0)


async def test_a_redirect_is_one_page_more_that_no_limit_counts(whole: Whole) -> None:
    """Its target lies in another partition; the page itself is redirected, not done."""
    first, second, _ = whole.domains()
    await whole.seeds(f"{first}/", domain_max_pages=1)
    (lease,) = await whole.lease()
    target = links(second, ["target"], counts=False)
    await whole.settle(lease, target, outcome=Outcome.REDIRECTED)
    await whole.settled()
    assert await whole.crawl_all() == [f"{second}/target"]
    state = await whole.state()
    assert (state.redirected, state.done, state.admitted) == (1, 1, 2)


async def test_where_a_seed_leads_is_fetched_each_time_and_known_from_then_on(whole: Whole) -> None:
    """Its target enters once for each salt though it is known; a link to it is a duplicate."""
    first, second, _ = whole.domains()
    for feed in range(2):
        await whole.seeds(f"{first}/")
        (lease,) = await whole.lease()
        target = redirect(f"{second}/target", salt=f"feed {feed}")
        await whole.settle(lease, target, outcome=Outcome.REDIRECTED)
        await whole.settled()
        (arrived,) = await whole.lease()
        assert url_of(arrived) == f"{second}/target"
        # The page of the seed was fetched a second time, and leads here again.
        await whole.settle(arrived, redirect(f"{second}/target", salt=f"feed {feed}"))
        await whole.settled()
    await whole.seeds(f"{first}/other")
    (lease,) = await whole.lease()
    await whole.settle(lease, links(second, ["target", "new"]))
    await whole.settled()
    assert await whole.crawl_all() == [f"{second}/new"]
    assert (await whole.state()).filtered_by_reason["duplicate"] == 3


async def test_a_limit_of_a_domain_refuses_by_name(whole: Whole) -> None:
    """Refuses links above a domain's limit, wherever they were found, and only counts them."""
    domains = whole.domains()
    await whole.seeds(f"{domains[0]}/", domain_max_pages=2)
    (lease,) = await whole.lease()
    await whole.settle(lease, *(links(domain, range(5)) for domain in domains))
    await whole.settled()
    state = await whole.state()
    assert state.filtered_by_reason == {"domain_max_pages": 4 + 3 + 3}
    assert state.queued == 1 + 2 + 2


async def test_what_workers_leave_out_is_counted_by_reason(whole: Whole) -> None:
    """Sum of all partitions together."""
    domains = whole.domains()
    await whole.seeds(*(f"{domain}/" for domain in domains))
    for lease in await whole.lease():
        await whole.settle(lease, filtered={"depth": 2, "regex": 1})
    assert (await whole.state()).filtered_by_reason == {"depth": 6, "regex": 3}


async def test_a_page_and_a_domain_are_found(whole: Whole) -> None:
    """Waiting, in flight, seen, and unknown."""
    domains = whole.domains()
    inspector = whole.frontiers.inspector
    await whole.seeds(*(f"{domain}/" for domain in domains))
    for where in (PagePlace.QUEUED, PagePlace.HELD, PagePlace.SEEN):
        for domain in domains:
            page = await inspector.page(CRAWL, f"http://{domain}/")
            assert page is not None
            assert page.where is where
        for lease in await whole.lease() if where is PagePlace.QUEUED else ():
            assert lease.run == 1
        if where is PagePlace.HELD:
            for p in whole.every:
                await whole.session(p).retire()
            await whole.crawl_all()
    page = await inspector.page(CRAWL, f"http://{domains[0]}/never")
    assert page is not None
    assert page.where is PagePlace.NEVER
