"""Domains of crawls are listed page by page, and no more of them than an answer may hold."""

from __future__ import annotations

from crawlstream.keys import FrontierKeys
from crawlstream_frontier.queries import ListingBudget, state_of
from crawlstream_frontier.scripts import Scripts
from support.frontier.bench import CRAWL, KEYS, Bench, links

pytest_plugins = ["support.frontier.fixtures"]

NAME = FrontierKeys.crawl_field(CRAWL)
DOMAINS = 900


async def fed(bench: Bench) -> Scripts:
    """A crawl with one page in each of many domains."""
    await bench.feed.seeds("seed/1")
    (lease,) = await bench.worker.lease()
    names = (f"d{number:05}.example" for number in range(DOMAINS))
    await bench.worker.settle(lease, links=[links(name, [1]) for name in names])
    return Scripts(bench.redis, KEYS)


async def test_all_domains_are_listed_once(bench: Bench) -> None:
    """Lists all domains once, however many calls it takes, of one crawl or of all."""
    await fed(bench)
    (listed,) = await bench.frontier.queries.crawls(with_domains=True)
    for state in (await bench.frontier.queries.crawl_state(CRAWL), listed):
        assert state is not None
        assert len({domain.domain for domain in state.domains}) == len(state.domains) == DOMAINS
        assert {domain.total for domain in state.domains} == {1}
        assert not state.is_cut


async def test_a_list_ends_where_the_answer_is_full(bench: Bench) -> None:
    """Omissions are stated, and counters stay whole."""
    scripts = await fed(bench)
    budget = ListingBudget(left_bytes=100 * 80)
    state = await state_of(scripts.run, NAME, budget)
    assert state is not None
    assert 100 <= len(state.domains) < DOMAINS
    assert (state.is_cut, state.queued) == (True, DOMAINS)
    assert budget.left_bytes <= 0
    state = await state_of(scripts.run, NAME, budget)
    assert state is not None
    assert (len(state.domains), state.is_cut) == (0, True)


async def test_counters_need_no_list(bench: Bench) -> None:
    """Cuts nothing if no domains are requested."""
    scripts = await fed(bench)
    state = await state_of(scripts.run, NAME, None)
    assert state is not None
    assert (len(state.domains), state.is_cut, state.queued) == (0, False, DOMAINS)


async def test_whom_pages_wait_for_is_listed(bench: Bench) -> None:
    """Crawlers of the spider, of another that links were handed to, and those with a browser."""
    await fed(bench)
    await bench.feed.seeds("a/1", "d00001.example/2", render={})
    state = await bench.state()
    assert state.lanes == ("link", "link+render")
    queries = bench.frontier.queries
    browser = bench.another_worker("w2", "link+render")
    assert len(await browser.crawl_all()) == 2
    (told,) = await queries.with_lanes(await queries.crawls(), ())
    assert told.lanes == (await bench.state()).lanes == ("link",)


async def test_nobody_is_asked_for_where_no_crawler_is_missing(bench: Bench) -> None:
    """A cluster that has a crawler for all that waits is not looked through."""
    await fed(bench)
    (state,) = await bench.frontier.queries.with_lanes([await bench.state()], ("link",))
    assert state.lanes == ("link",), "as it was"
    crawls = await bench.frontier.queries.crawls()
    assert await bench.frontier.queries.with_lanes(crawls, ("link",)) == crawls


async def test_blocked_and_unblocked_domains_are_told_apart(bench: Bench) -> None:
    """Distinguishes blocked domains by their own rule or the default, in several queues too."""
    await bench.feed.put(
        bench.feed.seed("a/1", priority=50),
        bench.feed.seed("a/2", priority=70),
        bench.feed.seed("b/1"),
    )
    await bench.redis.hset("{cs0}rules", "b", "0 1000 0 8")
    state = await bench.state()
    found = {domain.domain: domain for domain in state.domains}
    assert (found["a"].total, found["a"].high_priority, found["a"].low_priority) == (2, 70, 50)
    assert (found["a"].is_blocked, found["b"].is_blocked) == (False, True)
    assert state.held_back == {"blocked": 1}
    await bench.redis.hdel("{cs0}rules", "b")
