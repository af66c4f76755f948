"""Host budgets: pages of a domain over its budget wait behind those of all domains."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import pytest

from crawlstream.model.crawl import Lease
from crawlstream.model.effects import FOUND, Links
from crawlstream.model.inspection import NextReason
from crawlstream_frontier.link_rules.host_budgets import is_lower, raised
from crawlstream_frontier.link_rules.promotion import is_promoted
from crawlstream_frontier.waste.last_band import last_of
from support.frontier.audit import audit
from support.frontier.bench import CRAWL, Bench, links, standing_to, url_of
from support.frontier.lua import planted

pytest_plugins = ["support.frontier.fixtures"]


def found(
    lease: Lease, domain: str, *paths: object, priority: int = 40, linked: int = 0, depth: int = 1
) -> Links:
    """Links of a leased page, as a crawler sends them."""
    standing = standing_to(lease, domain)
    return links(domain, paths, priority=priority, linked=linked, standing=standing, depth=depth)


async def seeds(
    bench: Bench, *urls: str, budget: tuple[int, int] = (2, 1), **how: object
) -> list[Lease]:
    """Feed pages that will bring links, and lease them."""
    await bench.feed.seeds(*urls, priority=100, host_budget=budget, **how)
    return await bench.worker.lease(100)


async def rest(bench: Bench, want: int = 1) -> tuple[list[str], list[str]]:
    """Lease and end all pages; return the URLs of those in their own bands, and of the others."""
    own, lower = list[str](), list[str]()
    while leases := await bench.worker.lease(want):
        for lease in leases:
            assert not lower or is_lower(lease.priority)
            (lower if is_lower(lease.priority) else own).append(url_of(lease))
        await bench.worker.settle(*leases)
    return own, lower


async def test_a_domain_has_pages_for_each_trusted_domain_that_links_to_it(bench: Bench) -> None:
    """Others wait behind those of all domains, deeper ones too; none is refused."""
    one, two = await seeds(bench, "s1/", "s2/")
    await bench.worker.settle(one, links=[found(one, "a", *range(6)), found(one, "b", 1)])
    await bench.worker.settle(two, links=[found(two, "c", 1, priority=-300)])
    own, lower = await rest(bench)
    assert own == ["a/0", "b/1", "a/1", "a/2", "c/1"]
    assert lower == ["a/3", "a/4", "a/5"]
    assert (await bench.state()).done == 10


async def test_waiting_pages_get_the_room_of_a_further_link(bench: Bench) -> None:
    """They go before the new ones, to the bands that they would have had, best first."""
    one, two = await seeds(bench, "s1/", "s2/")
    deep = [found(one, "a", 7, 8, priority=30, depth=2), found(one, "a", *range(5))]
    await bench.worker.settle(one, links=deep)
    await bench.worker.settle(two, links=[found(two, "a", "new")])
    pages = await bench.worker.lease(100)
    assert [(url_of(page), raised(page.priority)) for page in pages[:4]] == [
        *(("a/0", 40), ("a/1", 40)),
        *(("a/7", 30), ("a/8", 30)),
    ]
    assert [url_of(page) for page in pages[4:]] == ["a/2", "a/3", "a/4", "a/new"]
    assert all(is_lower(page.priority) for page in pages[4:])
    await audit(bench.redis)


async def test_a_known_link_of_another_trusted_domain_counts(bench: Bench) -> None:
    """A worker sends it although it has sent it before, once for each domain that links."""
    leases = await seeds(bench, "s1/", "s2/", "s2/2")
    for lease in leases:
        await bench.worker.settle(lease, links=[found(lease, "a", *range(6))])
    own, lower = await rest(bench)
    assert (own, lower) == (["a/0", "a/1", "a/2", "a/3"], ["a/4", "a/5"])
    assert (await bench.state()).filtered_by_reason == {"duplicate": 12}


async def test_two_links_of_trusted_domains_make_a_domain_trusted(bench: Bench) -> None:
    """Its links count then; those of a domain with one, or of its own pages, do not."""
    leases = await seeds(bench, "s1/", "s1/2", "s2/")
    for lease, domains in zip(leases, ("ab", "b", "b"), strict=True):
        await bench.worker.settle(lease, links=[found(lease, name, 1) for name in domains])
    pages = await bench.worker.lease(100)
    assert {page.domain: page.is_trusted for page in pages} == {"a": False, "b": True}
    for page in pages:
        of = page.domain
        its = [found(page, f"of-{of}", 1, 2), found(page, of, 2, 3, 4, 5)]
        await bench.worker.settle(page, links=its)
    own, lower = await rest(bench, 100)
    assert sorted(own) == ["a/2", "a/3", "b/2", "b/3", "b/4", "of-b/1", "of-b/2"]
    assert sorted(lower) == ["a/4", "a/5", "b/5", "of-a/1", "of-a/2"]


async def test_the_domain_of_a_seed_is_trusted(bench: Bench) -> None:
    """It has the first number of pages without any link to it."""
    (lease,) = await seeds(bench, "s1/")
    await bench.worker.settle(lease, links=[found(lease, "s1", 1, 2, 3), found(lease, "a", 1)])
    pages = {url_of(page): page for page in await bench.worker.lease(100)}
    assert [*pages] == ["s1/1", "s1/2", "a/1", "s1/3"]
    assert [page.is_trusted for page in pages.values()] == [True, True, False, True]
    assert is_lower(pages["s1/3"].priority)


async def test_only_links_of_trusted_domains_promote(bench: Bench) -> None:
    """Ignores those of two other domains, and promotes by the third one of a trusted domain."""
    one, two, three = await seeds(bench, *(f"s{n}/" for n in range(3)), score="inlinks")
    page = found(one, "a", 1, priority=30, linked=FOUND)
    farm = [found(one, name, 1, linked=FOUND) for name in ("f1", "f2")]
    await bench.worker.settle(one, links=[*farm, page])
    for lease in (*await bench.worker.lease(2), two, three):
        assert not await bench.redis.keys("*b:link:1/?8:a")
        bench.worker.session._children._link_cache.enter(-1)
        group = found(lease, "a", 1, priority=30, linked=FOUND)
        await bench.worker.settle(lease, links=[group])
    assert [is_promoted(each.priority) for each in await bench.worker.lease()] == [True]


async def test_the_last_band_of_a_domain_over_its_budget_is_behind_all_domains(
    bench: Bench,
) -> None:
    """Otherwise the domain would rank by the priority that its pages had before."""
    (lease,) = await seeds(bench, "s1/", budget=(1, 0))
    last = [found(lease, "a", 1, 2, 3, priority=last_of(40)), found(lease, "b", 1, priority=-300)]
    await bench.worker.settle(lease, links=last)
    assert await bench.worker.urls(1) == ["a/1"]
    assert await bench.worker.urls(2) == ["b/1", "a/2"]


async def test_queries_tell_of_the_budget(bench: Bench) -> None:
    """The page that waits lower has this reason, the other one has not."""
    (lease,) = await seeds(bench, "s1/", budget=(1, 0))
    await bench.worker.settle(lease, links=[found(lease, "a", 1, 2)])
    pages = await bench.frontier.queries.next_pages(CRAWL, 10)
    assert pages is not None
    assert [page.reason for page in pages.pages] == [NextReason.LINK, NextReason.HOST_BUDGET]
    words = [await bench.frontier.inspector.page(CRAWL, f"http://a/{n}") for n in (1, 2)]
    known = "its domain is not trusted (trusted domains that link to it: 1) and has used 1 of its"
    assert [report and report.host_budget for report in words] == [
        f"{known} host budget",
        f"{known} host budget; the page waits behind those of all domains",
    ]


async def test_a_crawl_keeps_what_it_knows_of_domains_for_its_next_run(bench: Bench) -> None:
    """Its domains stay trusted, as their pages stay known."""
    one, two = await seeds(bench, "s1/", "s2/")
    await bench.worker.settle(one, links=[found(one, "a", 1)])
    await bench.worker.settle(two, links=[found(two, "a", 2)])
    await rest(bench)
    await bench.advance(3_100)
    await bench.tend()
    await bench.feed.seeds("a/again", host_budget=(2, 1))
    (lease,) = await bench.worker.lease()
    assert (lease.run, lease.is_trusted) == (2, True)


async def test_links_of_stopped_runs_leave_nothing(bench: Bench) -> None:
    """Records of domains with and without queues are swept."""
    (lease,) = await seeds(bench, "s1/", budget=(1, 0))
    await bench.worker.settle(lease, links=[found(lease, "a", 1, 2, 3), found(lease, "b", 1)])
    await bench.feed.say("stop")
    await bench.tend()
    await audit(bench.redis)
    assert not await bench.redis.keys("*b:link:*")


class Bug(NamedTuple):
    """Text in exactly one place of the Lua, its replacement, and the test that finds it."""

    right: str
    wrong: str
    found_by: Callable[[Bench], Awaitable[None]]


BUGS = {
    "a domain ranks by the priority that its last band had": Bug(
        right="priority <= LAST_BAND and priority - OF_LAST_BAND",
        wrong="priority <= LAST_BAND and priority",
        found_by=test_the_last_band_of_a_domain_over_its_budget_is_behind_all_domains,
    ),
    "links of domains that are not trusted promote": Bug(
        right="weight = said == '-' and 0 or 1",
        wrong="weight = 1",
        found_by=test_only_links_of_trusted_domains_promote,
    ),
    "the next run trusts no domain": Bug(
        right="(crawl_of(c).has_host_budget and OF_HOSTS or 0)",
        wrong="0",
        found_by=test_a_crawl_keeps_what_it_knows_of_domains_for_its_next_run,
    ),
}


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
async def test_a_named_test_finds_the_bug(bug: Bug, bench: Bench) -> None:
    """An assertion of it fails with the bug."""
    with planted(bug.right, bug.wrong), pytest.raises(AssertionError):
        await bug.found_by(bench)
    await bench.redis.flushdb()
