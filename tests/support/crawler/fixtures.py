"""Fixtures of the crawler's tests; a module has them by ``pytest_plugins``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from crawlstream_chaos.processes import RunningServer
from crawlstream_chaos.scripted_site import CrawlerSite, serving
from support.crawler.cluster import CrawlerCluster


@pytest.fixture
def way(request: pytest.FixtureRequest) -> str:
    """How crawlers fetch; see :mod:`support.crawler.ways`."""
    chosen: str = getattr(request, "param", "lane")
    return chosen


@pytest.fixture
async def cluster(
    redis: Redis,
    redis_server: RunningServer,
    kafka_server: RunningServer,
    fresh_name: str,
    tmp_path: Path,
    *,
    way: str,
) -> CrawlerCluster:
    """A frontier without limits of rate, and topics of its own."""
    cluster = CrawlerCluster(redis, redis_server.port, kafka_server.port, fresh_name, tmp_path)
    cluster.env["CRAWLSTREAM_FETCH"] = way
    await cluster.prepare()
    return cluster


@pytest.fixture
def site() -> Iterator[CrawlerSite]:
    """An empty web: each test adds its pages."""
    with serving({}) as site:
        yield site
