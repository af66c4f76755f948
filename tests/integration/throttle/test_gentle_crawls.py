"""Gentle rules with crawler processes, judged by the site's own log."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

from redis.asyncio import Redis

from crawlstream.keys import FrontierKeys
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream_chaos.processes import RunningServer
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, page
from crawlstream_frontier.frontier import Frontier
from support.crawler.cluster import WIDE_OPEN, CrawlerCluster, counted
from support.crawler.ways import both_ways
from support.frontier.bench import keep_what_is_answered
from support.waiting import WaitUntil

pytest_plugins = ["support.crawler.fixtures"]

LATENCY_S, SHARE, PAGES = 0.3, 0.5, 8
BODY_S = 1.5
STAMP_S = 0.01
"""The site's stamps, and the frontier's milliseconds, may be so much off."""
QUICK, SLOW = "127.0.0.1", "127.0.0.2"


def gaps(site: CrawlerSite, host: str) -> list[float]:
    """Seconds between consecutive arrivals at a host."""
    times = sorted(visit.at for visit in site.visits if visit.host == host)
    return [later - earlier for earlier, later in itertools.pairwise(times)]


@both_ways
async def test_the_pace_follows_the_latency_of_the_site(
    cluster: CrawlerCluster, site: CrawlerSite, redis: Redis
) -> None:
    """Two workers, a slow site and a quick one; only the site of the gentle rule is measured."""
    site.pages |= {f"{SLOW}/{n}": Answer(b"slow", after_s=LATENCY_S) for n in range(PAGES)}
    site.pages |= {f"{QUICK}/{n}": page() for n in range(PAGES)}
    gentle = ThrottleRule(hits=100, window_s=1, concurrency=8, gentle=SHARE)
    await cluster.set_rules(WIDE_OPEN, {SLOW: gentle})
    with cluster.worker(), cluster.worker():
        crawl = await cluster.feed(
            *(site.url(f"/{n}", host=host) for n in range(PAGES) for host in (QUICK, SLOW))
        )
        state = await cluster.end_of(crawl, timeout_s=90)
    assert state.done == 2 * PAGES
    assert set(counted(cluster.results()).values()) == {1}
    assert min(gaps(site, SLOW)) >= LATENCY_S / SHARE - STAMP_S
    report = await Frontier(redis, FrontierKeys()).inspector.domain(SLOW)
    assert report.latency_ms >= 1000 * LATENCY_S
    assert {*await redis.hkeys(FrontierKeys().tag + "latency")} == {SLOW.encode(), b"#"}


async def test_redis_is_killed_in_the_middle(
    cluster: CrawlerCluster,
    site: CrawlerSite,
    redis: Redis,
    redis_server: RunningServer,
    wait_until: WaitUntil,
) -> None:
    """Latencies are on the disk: the spacing is kept before and after."""
    site.pages |= {f"{SLOW}/{n}": Answer(b"slow", after_s=LATENCY_S) for n in range(PAGES)}
    await keep_what_is_answered(redis)
    await cluster.set_rules(ThrottleRule(hits=100, window_s=1, gentle=SHARE), {})
    with cluster.worker(), cluster.worker():
        crawl = await cluster.feed(*(site.url(f"/{n}", host=SLOW) for n in range(PAGES)))
        await wait_until(lambda: len(site.visits) >= PAGES // 2)
        redis_server.kill()
        redis_server.start()
        state = await cluster.end_of(crawl, timeout_s=90)
    assert state.done == PAGES
    assert min(gaps(site, SLOW)) >= LATENCY_S / SHARE - STAMP_S
    report = await Frontier(redis, FrontierKeys()).inspector.domain(SLOW)
    assert report.latency_ms >= 1000 * LATENCY_S


async def test_a_slow_body_is_not_the_latency(
    cluster: CrawlerCluster, site: CrawlerSite, redis: Redis
) -> None:
    """Measures the time to the first byte only; the rest may be the crawler's bandwidth."""

    def pieces() -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nh"
        time.sleep(BODY_S)
        yield b"i"

    site.pages |= {f"/{number}": lambda _: Answer(stream=pieces()) for number in range(3)}
    await cluster.set_rules(ThrottleRule(hits=100, window_s=1, gentle=8), {})
    with cluster.worker():
        crawl = await cluster.feed(*(site.url(f"/{n}") for n in range(3)))
        state = await cluster.end_of(crawl, timeout_s=90)
    assert state.done == 3
    report = await Frontier(redis, FrontierKeys()).inspector.domain(QUICK)
    assert 0 < report.latency_ms < 1000 * BODY_S
