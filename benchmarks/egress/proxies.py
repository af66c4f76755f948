"""Measure the book of proxies: Redis' time for a full report, a worker's for a choice."""

from __future__ import annotations

import random
import time

from lib.harness import Benchmark, Figures, Line, measured
from lib.load import KEYS, open_frontier
from redis.asyncio import Redis

from crawling.egress.limits import PoolLimits
from crawling.egress.local_book import LocalBook
from crawling.egress.proxy_choice import Choice
from crawling.egress.shared_book import SharedBook
from crawling.lease.leases import Leases
from crawling.page.page import Page
from crawlstream.model.crawl import CrawlKey, Entry, Lease, Profile
from crawlstream.model.egress.pools import Pool, Proxy
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.proxy_reports import (
    REFUSED,
    PoolSpend,
    ProxyOutcome,
    ProxyReport,
    ProxyRest,
    ProxyUse,
)

PROXIES, OUTCOMES, CALLS = 1_000, 200, 100
SITES, CHOICES = 100, 20_000


def proxies() -> tuple[Proxy, ...]:
    """As many as a large pool has."""
    return tuple(
        Proxy(scheme="http", host=f"10.0.{n // 250}.{n % 250}", port=1) for n in range(PROXIES)
    )


def report(ids: list[str]) -> ProxyReport:
    """Return a busy worker's report of half a second: outcomes, some rests, uses and spend."""
    told = random.sample(ids, OUTCOMES)
    site = f"site{random.randrange(SITES)}.example"
    return ProxyReport(
        outcomes={
            one: ProxyOutcome(answers=3, failed=1, in_row=1, total_ms=300, through=[site])
            for one in told
        },
        rests=[ProxyRest(one, site, 60_000, REFUSED) for one in told[:20]],
        uses=[ProxyUse(one, site, 3, 1_000_000, 60_000) for one in told[:50]],
        spends={"de": PoolSpend(600, 10_000_000)},
    )


def page(number: int) -> Page:
    """Return a page of a site."""
    domain = f"site{number % SITES}.example"
    lease = Lease(
        token=str(number),
        crawl=CrawlKey("link", "bench", "crawl"),
        run=1,
        domain=domain,
        priority=1,
        entry=Entry(url=f"http://{domain}/"),
        profile=Profile(),
        retries=0,
        issued_at=time.monotonic(),
    )
    return Leases(1, lambda: None).admit(lease)


async def measure(redis: Redis) -> Figures:
    """Reports of one worker, and choices for sites whose order is known."""
    await open_frontier(redis)
    frontier = Frontier(redis, KEYS)
    ids = [proxy.id for proxy in proxies()]
    session = frontier.book.session("bench")
    reports = [report(ids) for _ in range(CALLS)]
    await session.exchange(report(ids), is_user=True)
    async with measured(redis) as cost:
        for one in reports:
            await session.exchange(one, is_user=True)
    book = LocalBook()
    book.keep(frozenset(ids))
    shared = SharedBook(session, book, is_needed=lambda: True)
    choice = Choice(book, PoolLimits(book, shared), {})
    pool = Pool(name="de", proxies=proxies())
    pages = [page(number) for number in range(SITES)]
    for each in pages:
        choice.choose(pool, each, set())
    began = time.process_time()
    for number in range(CHOICES):
        choice.choose(pool, pages[number % SITES], set())
    chosen_s = time.process_time() - began
    return {
        "us_a_report": cost.cpu_us / CALLS,
        "us_a_choice": chosen_s / CHOICES * 1e6,
    }


if __name__ == "__main__":
    Benchmark(
        name="proxies",
        about="µs of Redis for a report of 200 outcomes at 1,000 proxies; µs of a worker for a"
        " choice.",
        measure=measure,
        lines={
            "us_a_report": Line(floor=2_000, goal=500, unit="µs"),
            "us_a_choice": Line(floor=20, goal=5, unit="µs"),
        },
    ).main()
