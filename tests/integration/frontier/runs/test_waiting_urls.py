"""URLs of pages that wait at a domain: all of them, in bounded steps, while the queues move."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from redis.asyncio import Redis

from crawlstream.model.crawl import READS_SITEMAP, CrawlKey, Entry
from crawlstream.model.effects import FOUND, Seed
from crawlstream.wire.stored import encode_entry
from crawlstream_chaos.processes import RunningServer
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.shelves.shelf import Shelf
from support.frontier.bench import CRAWL, WIDE_OPEN, Bench, links, url_of
from support.partitions.two import open_two

pytest_plugins = ["support.frontier.fixtures"]

OTHER = replace(CRAWL, crawlid="other")
DOMAIN = "example.com"
PAGES = 600


async def waiting(bench: Bench, *crawls: CrawlKey, domain: str = DOMAIN) -> set[str]:
    """Return the URLs that wait at a domain, without ``http://``."""
    parts = [part async for part in bench.frontier.waiting.urls(crawls or (CRAWL,), domain)]
    assert not any(part.unread for part in parts)
    return {url.removeprefix("http://") for part in parts for url in part.urls}


async def fill(bench: Bench, pages: int, crawl: CrawlKey = CRAWL) -> None:
    """Let pages of the domain wait, while its seed stays leased."""
    await bench.feed.seeds(f"{DOMAIN}/seed", priority=90, crawl=crawl)
    (lease,) = await bench.worker.lease()
    for at in range(0, pages, 500):
        group = links(DOMAIN, range(at, min(at + 500, pages)))
        await bench.worker.session.put_links(lease.token, [group])


def paths(numbers: Iterable[int]) -> set[str]:
    """Return the pages that ``fill`` makes, by number."""
    return {f"{DOMAIN}/{number}" for number in numbers}


async def carry(bench: Bench) -> None:
    """Shelve and bring back until there is nothing to do."""
    while not (await bench.frontier.stocking.step()).is_idle:
        pass


async def test_pages_of_all_crawls_that_are_named_are_listed(bench: Bench) -> None:
    """Queued, delayed and paused ones at the domain and its hosts; not those in flight."""
    rules = {f"slow.{DOMAIN}": WIDE_OPEN, "slow.example.org": WIDE_OPEN}
    await bench.rule(WIDE_OPEN, rules)
    await bench.feed.seeds(f"{DOMAIN}/1", f"{DOMAIN}/2", f"{DOMAIN}/3")
    first, held = await bench.worker.lease(2)
    await bench.worker.requeue(first, delay_ms=60_000)
    far = links(f"slow.{DOMAIN}", ["4", "example.org/5"])
    await bench.worker.session.put_links(held.token, [replace(far, domain=DOMAIN, site=far.domain)])
    await bench.feed.seeds(f"{DOMAIN}/6", crawl=OTHER, priority=10)
    await bench.feed.put(bench.feed.command("pause", OTHER))
    found = {f"{DOMAIN}/1", f"{DOMAIN}/3", f"slow.{DOMAIN}/4", f"slow.{DOMAIN}/example.org/5"}
    assert await waiting(bench) == found
    assert await waiting(bench, CRAWL, OTHER) == found | {f"{DOMAIN}/6"}
    assert await waiting(bench, replace(CRAWL, crawlid="unknown")) == set()
    assert await waiting(bench, domain="example.org") == set()
    await bench.feed.put(bench.feed.command("stop"))
    assert await waiting(bench) == set()


async def test_requests_that_a_url_does_not_describe_are_left_out(bench: Bench) -> None:
    """Forms, and sitemaps that wait to be read."""
    await bench.feed.seeds(f"{DOMAIN}/1")
    (lease,) = await bench.worker.lease()
    odd = [
        Entry(url=f"http://{DOMAIN}/form", method="POST", body=b"a=1"),
        Entry(url=f"http://{DOMAIN}/sitemap.xml", callback=READS_SITEMAP),
        Entry(url=f"http://{DOMAIN}/page"),
    ]
    group = replace(links(DOMAIN, range(3)), entries=[encode_entry(one) for one in odd])
    await bench.worker.session.put_links(lease.token, [group])
    assert await waiting(bench) == {f"{DOMAIN}/page"}


@pytest.mark.parametrize("shelve_from", [0, 16])
async def test_a_page_that_waits_is_listed_while_others_come_and_go(
    bench: Bench, shelve_from: int
) -> None:
    """Between any two steps, pages are leased, put back, appended, shelved and restocked."""
    bench.shelve(shelve_from)
    await fill(bench, PAGES)
    found, steps, gone = set[str](), 0, set[str]()
    async for part in bench.frontier.waiting.urls([CRAWL], DOMAIN):
        found.update(url.removeprefix("http://") for url in part.urls)
        steps += 1
        bench.shelve(16)
        leases = await bench.worker.lease(5)
        gone.update(lease.entry.url.removeprefix("http://") for lease in leases)
        await bench.worker.requeue(leases[0])
        new = range(10_000 + 9 * steps, 10_009 + 9 * steps)
        await bench.worker.session.put_links(leases[-1].token, [links(DOMAIN, new)])
        await carry(bench)
        assert steps < 200
    assert paths(range(PAGES)) - gone <= found


async def test_a_shelf_that_does_not_answer_is_told(
    bench: Bench, redis_server: RunningServer
) -> None:
    """With the number of the pages there; all others are listed."""
    async with Redis(host="127.0.0.1", port=redis_server.port, db=9) as shelf:
        bench.shelve(16, Shelf(shelf, "there:1/9"))
        await carry(bench)
        await fill(bench, 100)
        await carry(bench)
        assert await waiting(bench) == paths(range(100))
        await shelf.flushdb()
        parts = [part async for part in bench.frontier.waiting.urls([CRAWL], DOMAIN)]
    listed = {url for part in parts for url in part.urls}
    assert sum(part.unread for part in parts) + len(listed) == 100
    assert 0 < len(listed) < 100


async def test_promoted_pages_are_listed_until_they_are_leased(bench: Bench) -> None:
    """A page of a crawl with a score may have several entries; later ones are ignored."""
    await bench.feed.seeds(*(f"s{n}/" for n in range(3)), priority=100, score="inlinks")
    for lease in await bench.worker.lease(3):
        bench.worker.session._children._link_cache.enter(-1)
        await bench.worker.settle(lease, links=[links(DOMAIN, "abc", linked=FOUND)])
    assert await waiting(bench) == {f"{DOMAIN}/{name}" for name in "abc"}
    (first,) = await bench.worker.lease()
    assert await waiting(bench) == {f"{DOMAIN}/{name}" for name in "abc"} - {url_of(first)}


async def test_a_partition_lists_its_own_domains(redis: Redis) -> None:
    """By the name of the crawl, whatever its number there."""
    two = await open_two(redis)
    await two.feed()
    seeds = [seed for seed in two.records if isinstance(seed, Seed)]
    for seed in seeds:
        for place, part in enumerate(two.parts):
            waiting_pages = Frontier(redis, part.keys).waiting
            steps = waiting_pages.urls([two.crawl], seed.domain)
            found = [url async for step in steps for url in step.urls]
            assert len(found) == (place == two.partitions.of(seed.domain))
