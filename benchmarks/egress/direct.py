"""Measure the cost of proxies and TLS profiles for a page without either, if none is configured.

It counts bytecodes, since no clock is that precise: those of the crawler's modules for a page, from
the lane's call of its client to the response; against those of the same client without either.
"""

from __future__ import annotations

import sys
import tempfile
import time
from ipaddress import ip_network
from itertools import count
from types import FrameType
from typing import Any, Self

from lib.harness import Benchmark, Figures, Line
from lib.webs import Web, serving
from redis.asyncio import Redis
from scrapy import Request

from crawling.client.client_of import FetchClient
from crawling.client.http_client import HttpClient
from crawling.client.profiled import ProfiledClient
from crawling.egress.patience import Patience
from crawling.egress.routes import Routes
from crawling.egress.tls import TlsChoice
from crawling.lease.leases import Leases
from crawling.net.address_guard import GuardedResolver
from crawling.page.scrapy_request import PAGE
from crawlstream.boot.addresses import Guard
from crawlstream.keys import FrontierKeys
from crawlstream.model.crawl import CrawlKey, Entry, Lease, Profile
from crawlstream.model.egress.pools import PoolTable
from crawlstream.model.url import host_of
from crawlstream_frontier.frontier import Frontier

PAGES = 200
_OURS = ("/crawling/", "/crawlstream/")


class Counter:
    """Counts bytecodes of crawlstream's modules while it is on."""

    def __init__(self) -> None:
        self.opcodes = 0

    def __enter__(self) -> Self:
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _enter(self, frame: FrameType, event: str, _: Any) -> Any:
        if not any(part in frame.f_code.co_filename for part in _OURS):
            return None
        frame.f_trace_opcodes = True
        return self._step

    def _step(self, _frame: FrameType, event: str, _: Any) -> Any:
        self.opcodes += event == "opcode"
        return self._step


async def fetch(client: FetchClient, leases: Leases, url: str, numbers: count[int]) -> None:
    """Download one page, from its lease on."""
    number, now = next(numbers), time.monotonic()
    leases.note_answer(0, now, 1)
    lease = Lease(
        token=f"1-{number}",
        crawl=CrawlKey("link", "bench", "crawl"),
        run=1,
        domain=host_of(url),
        priority=1,
        entry=Entry(url=url),
        profile=Profile(),
        retries=0,
        issued_at=now,
    )
    page = leases.admit(lease)
    await client.fetch(Request(url, meta={PAGE: page}), page)
    leases.release(page)


async def opcodes(client: FetchClient, leases: Leases, url: str) -> float:
    """Bytecodes a page, on a kept connection."""
    numbers = count(1)
    for _ in range(10):
        await fetch(client, leases, url, numbers)
    with Counter() as counter:
        for _ in range(PAGES):
            await fetch(client, leases, url, numbers)
    return counter.opcodes / PAGES


async def measure(redis: Redis) -> Figures:
    """The client without proxies and profiles, and the one that every worker has."""
    frontier = Frontier(redis, FrontierKeys())
    await frontier.pools.copy(PoolTable(czxid=1, mzxid=1))
    patience, session = Patience(redis, FrontierKeys(), most_s=1), frontier.book.session("bench")
    routes = Routes(frontier.pools, patience, session, group="")
    resolver = GuardedResolver(Guard((ip_network("127.0.0.0/8"),)), None)
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        async with serving(Web(), folder) as web:
            for name in ("without", "with"):
                leases = Leases(64, lambda: None)
                client: FetchClient = HttpClient(
                    leases,
                    resolver,
                    timeout_s=10,
                    most_bytes=1 << 20,
                    verifies=None,
                    routes=routes if name == "with" else None,
                )
                if name == "with":
                    choice = TlsChoice(frontier.handshakes, ["default"])
                    client = ProfiledClient(client, routes, choice, _no_browser)
                found[f"{name}_opcodes"] = await opcodes(client, leases, web.seeds[0])
                client.close()
    return {"of_without": found["with_opcodes"] / found["without_opcodes"], **found}


def _no_browser(profile: str) -> FetchClient:
    raise AssertionError(f"{profile} is asked for")


if __name__ == "__main__":
    Benchmark(
        name="direct",
        about="Bytecodes of the client for a page where proxies and TLS profiles are not used, with"
        " them and without.",
        measure=measure,
        lines={"of_without": Line(floor=1.1, goal=1.03, unit="")},
        repetitions=1,
    ).main()
