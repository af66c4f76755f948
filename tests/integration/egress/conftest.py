"""What tests of proxies work with: sites, and a client that goes by the pools in a real Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from crawlstream.chaos.scripted_site import CrawlerSite, page, serving
from support.crawler.proxied import Bench
from support.crawler.tls import TlsSite, make_certificate
from support.crawler.visitor import Visitor


@pytest.fixture
def site() -> Iterator[CrawlerSite]:
    """A web of one page."""
    with serving({"/": page()}) as site:
        yield site


@pytest.fixture
def bench(redis: Redis) -> Bench:
    """Pools of this test's own."""
    return Bench(redis)


@pytest.fixture
async def visitor(bench: Bench) -> AsyncIterator[Visitor]:
    """A client that waits two seconds."""
    with bench.visiting(timeout_s=2.0) as visitor:
        yield visitor


@pytest.fixture
def secret(tmp_path: Path) -> Iterator[CrawlerSite]:
    """The same behind TLS."""
    with serving({"/": page()}, kind=TlsSite) as secret:
        assert isinstance(secret, TlsSite)
        secret.certify(make_certificate(tmp_path))
        yield secret
