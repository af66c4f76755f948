"""The next pages of a crawl: in the order in which they are leased, each with its reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from crawlstream.model.crawl import Entry
from crawlstream.model.inspection import NextPage, NextPages, NextReason
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream.model.web.priorities import PriorityRule
from crawlstream.wire.stored import encode_entry
from support.frontier.bench import CRAWL, WIDE_OPEN, Bench, links
from support.windows import bursts, group

pytest_plugins = ["support.frontier.fixtures"]

OTHER = replace(CRAWL, crawlid="other")
SECOND = ThrottleRule(hits=10, window_s=10)


async def report(bench: Bench, most: int = 20) -> NextPages:
    """The next pages of the usual crawl."""
    found = await bench.frontier.queries.next_pages(CRAWL, most)
    assert found is not None
    return found


def places(pages: Sequence[NextPage]) -> list[str]:
    """Their URLs, as ``Worker.urls`` has them."""
    return [page.url.removeprefix("http://") for page in pages]


async def test_pages_are_listed_in_the_order_of_their_leases(bench: Bench) -> None:
    """Lists pages by priority, then by age, and no page that was leased."""
    await bench.feed.seeds("a/1", "a/2", priority=30)
    await bench.feed.seeds("a/3", priority=90)
    await bench.feed.seeds("a/4", "a/5", priority=60)
    found = await report(bench)
    assert places(found.pages) == ["a/3", "a/4", "a/5", "a/1", "a/2"]
    assert [page.priority for page in found.pages] == [90, 60, 60, 30, 30]
    assert (found.state, found.is_complete) == ("running", True)
    assert places((await report(bench, 2)).pages) == ["a/3", "a/4"]
    leased = [await bench.worker.urls(1) for _ in range(3)]
    assert leased == [["a/3"], ["a/4"], ["a/5"]]
    assert places((await report(bench)).pages) == ["a/1", "a/2"]
    assert await bench.frontier.queries.next_pages(OTHER, 5) is None


async def test_domains_follow_each_other_by_their_rules(bench: Bench) -> None:
    """The time of each page is the earliest by the rule; pages of other crawls take theirs."""
    rules = {"slow": SECOND, "never": ThrottleRule(hits=0, window_s=1)}
    await bench.rule(ThrottleRule(hits=100, window_s=10), rules)
    await bench.feed.seeds("slow/1", "slow/2", "fast/1", "fast/2", "fast/3", "never/1")
    await bench.feed.seeds("slow/9", "slow/8", priority=90, crawl=OTHER)
    await bench.worker.lease(100)
    found = await report(bench)
    assert places(found.pages) == ["fast/2", "fast/3", "slow/1", "slow/2", "never/1"]
    assert found.pages[-1].due_ms is None
    fast, after, slow, last = (page.due_ms or 0 for page in found.pages[:-1])
    assert (after - fast, last - slow) == (100, 1000)
    assert 1000 < slow <= 2000


async def test_domains_that_wait_in_a_gate_are_due_with_it(bench: Bench) -> None:
    """They are not held back, but wait for the limit of their group; the best priority is first."""
    await bench.rule(WIDE_OPEN, groups={"hoster": group(bursts(1, 10), "example")})
    await bench.feed.seeds("a.example/1", "b.example/1")
    await bench.feed.seeds("c.example/1", priority=20)
    (lease,) = await bench.worker.lease(5)
    await bench.worker.settle(lease, sent_ms=0)
    assert await bench.worker.lease(5) == []
    await bench.feed.seeds("c.example/2", priority=90)
    found = await report(bench)
    assert places(found.pages) == ["c.example/2", "b.example/1", "c.example/1"]
    assert all(9_000 < (page.due_ms or 0) <= 10_001 for page in found.pages)
    await bench.feed.seeds(*(f"{n}.example/1" for n in range(40)))
    assert await bench.worker.lease(5) == []
    many = await report(bench, 50)
    assert not many.is_complete
    assert many.pages
    assert all(page.due_ms is not None for page in many.pages)


async def test_a_page_says_why_it_has_its_priority(bench: Bench) -> None:
    """Seed, link, redirect or rule; a rule of texts that may have decided is not guessed at."""
    rules = (
        PriorityRule(match="/guess", text="x", add=40),
        PriorityRule(match="/sale|/guess", add=100),
    )
    await bench.feed.seeds("a/0", "a/seed", maxdepth=3, priorities=rules)
    (lease,) = await bench.worker.lease()
    moved = Entry(url="http://a/moved", depth=1, redirect_urls=("http://a/old",))
    target = replace(links("a", ["moved"]), entries=[encode_entry(moved)])
    found = [links("a", ["sale", "guess"], priority=140), links("a", ["plain"]), target]
    await bench.worker.settle(lease, links=found)
    (seed,) = [page for page in (await report(bench)).pages if page.depth == 0]
    assert (seed.reason, seed.attempt) == (NextReason.SEED, 1)
    reasons = {page.url: (page.reason, page.rule) for page in (await report(bench)).pages}
    assert reasons == {
        "http://a/sale": (NextReason.RULE, 2),
        "http://a/guess": (NextReason.LINK, None),
        "http://a/seed": (NextReason.SEED, None),
        "http://a/plain": (NextReason.LINK, None),
        "http://a/moved": (NextReason.REDIRECT, None),
    }


async def test_delayed_pages_are_listed_by_their_time(bench: Bench) -> None:
    """Lists delayed pages by their time, with the number of their next attempt."""
    await bench.feed.seeds("a/1", "a/2")
    (lease,) = await bench.worker.lease()
    await bench.worker.requeue(lease, delay_ms=60_000)
    first, second = (await report(bench)).pages
    assert (places([first, second]), second.attempt) == (["a/2", "a/1"], 2)
    assert second.due_ms is not None
    assert 0 < second.due_ms <= 60_000


async def test_a_crawl_of_many_domains_is_cut_and_says_so(bench: Bench) -> None:
    """The best of the spider's queue are examined; what it shows is leased first."""
    await bench.feed.seeds(*(f"d{n}/1" for n in range(200)), priority=20)
    await bench.feed.seeds(*(f"best{n}/1" for n in range(5)), priority=80)
    found = await report(bench, 5)
    assert not found.is_complete
    assert sorted(places(found.pages)) == [f"best{n}/1" for n in range(5)]
    assert places(found.pages) == await bench.worker.urls(5)


async def test_pages_of_another_spider_and_of_a_paused_crawl(bench: Bench) -> None:
    """Lists those of all spiders, and shows that a crawl is paused."""
    await bench.feed.seeds("a/1", maxdepth=1)
    (lease,) = await bench.worker.lease()
    await bench.worker.settle(lease, links=[links("b", [1], spiderid="an other"), links("a", [2])])
    found = (await report(bench)).pages
    assert {(page.url, page.spiderid) for page in found} == {
        ("http://b/1", "an other"),
        ("http://a/2", "link"),
    }
    await bench.feed.say("pause")
    await bench.worker.lease()
    paused = await report(bench)
    assert paused.state == "paused"
