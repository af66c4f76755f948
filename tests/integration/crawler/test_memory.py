"""Memory of a crawler process when many large bodies come at once."""

from __future__ import annotations

import gzip
import itertools
import signal
import time
from collections.abc import Iterator

from crawlstream_chaos.hostile_pages import MIB, packed
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, Page, page
from support.crawler.cluster import CrawlerCluster
from support.crawler.ways import both_ways

pytest_plugins = ["support.crawler.fixtures"]

RESIDENT = 300 * MIB
LIMITS = {"RETRY_TIMES": "0", "CRAWLSTREAM_MAX_BODY_BYTES": "4096", "CONCURRENT_REQUESTS": "64"}
PIECE = b"word " * 13_000


def steady(size: int, every_s: float) -> Page:
    """A body in pieces of 64 KB, each after a pause."""

    def pieces() -> Iterator[bytes]:
        count = size // len(PIECE)
        yield b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (count * len(PIECE))
        for _ in range(count):
            time.sleep(every_s)
            yield PIECE

    return lambda _visit: Answer(stream=pieces())


def hog() -> Page:
    """A body that is nearly as large as it may be at once, and then never ends."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"

    def pieces() -> Iterator[bytes]:
        yield head + b"x" * (15 * MIB)
        for _ in itertools.count():
            time.sleep(0.1)
            yield b"x"

    return lambda _visit: Answer(stream=pieces())


@both_ways
async def test_many_large_bodies_at_once_come_in_one_after_the_other(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """Each of 40 steady servers has its page taken, however long others were before it."""
    site.pages |= {f"/large/{number}": steady(12 * MIB, 0.005) for number in range(40)}
    site.pages |= {f"/small/{number}": page() for number in range(20)}
    large, small = (
        [site.url(path, f"127.7.0.{n}") for n, path in enumerate(site.pages, 1) if kind in path]
        for kind in ("large", "small")
    )
    began = time.monotonic()
    with cluster.worker(**LIMITS, DOWNLOAD_TIMEOUT="8") as worker:
        crawl = await cluster.feed(*large, crawlid="large")
        others = await cluster.feed(*small, crawlid="small")
        assert (await cluster.end_of(others, timeout_s=90)).done == len(small)
        state = await cluster.end_of(crawl, timeout_s=240)
        assert (state.done, state.failed_by_reason) == (len(large), {})
        assert worker.most_resident < RESIDENT
    assert time.monotonic() - began > 8, "none of them has waited longer than its own time"


async def test_bodies_that_never_end_give_their_room_to_those_that_wait(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """Eight of them time out, two at a time; a large page between them comes, and the end."""
    site.pages |= {f"/hog/{number}": hog() for number in range(8)}
    site.pages |= {"/honest": Answer(b"word " * MIB)}
    urls = [site.url(path, f"127.7.0.{n}") for n, path in enumerate(site.pages, 1)]
    with cluster.worker(**LIMITS, DOWNLOAD_TIMEOUT="4") as worker:
        crawl = await cluster.feed(*urls)
        state = await cluster.end_of(crawl, timeout_s=120)
        assert (state.done, state.failed_by_reason) == (1, {"timeout": 8})
        assert worker.most_resident < RESIDENT
        worker.signal(signal.SIGTERM)
        assert worker.wait(60) == 0


async def test_responses_that_become_large_are_not_decompressed_all_at_once(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """Forty bodies of 16 KB that are 15 MiB, just within the limit, are results."""
    small = packed(gzip.compress(b" " * 15 * MIB), "gzip")
    site.pages |= {f"/small/{number}": small for number in range(40)}
    urls = [site.url(path, f"127.7.0.{n}") for n, path in enumerate(site.pages, 1)]
    with cluster.worker(**LIMITS, DOWNLOAD_TIMEOUT="30") as worker:
        crawl = await cluster.feed(*urls)
        state = await cluster.end_of(crawl, timeout_s=120)
        assert (state.done, state.failed_by_reason) == (len(urls), {})
        assert worker.most_resident < RESIDENT
