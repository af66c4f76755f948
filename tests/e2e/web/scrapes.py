"""A further REST process of the cluster, which scrapes, and sites with hosts of their own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from crawlstream_chaos.scripted_site import Answer, CrawlerSite, Page, serving
from crawlstream_cli.local.ports import free_block
from e2e.cluster import Cluster
from support.monitors import MonitorProcess
from support.rest import Answer as HttpAnswer
from support.rest import RestProcess

_blocks = count(1)


@contextmanager
def site_of(pages: Mapping[str, Page]) -> Iterator[tuple[CrawlerSite, str]]:
    """Serve pages on a host that no other test uses."""
    with serving({"/robots.txt": Answer(status=404), **pages}) as site:
        yield site, f"127.77.{next(_blocks)}.1"


@pytest.fixture(name="rest")
async def rest_fixture(cluster: Cluster, tmp_path: Path) -> AsyncIterator[RestProcess]:
    """Return a REST process of this test's own."""
    async with another(cluster, tmp_path) as process:
        yield process


@asynccontextmanager
async def another(cluster: Cluster, folder: Path, **extra: str) -> AsyncIterator[RestProcess]:
    """Run one more REST process."""
    port = free_block(2)
    env = {
        **cluster.environment,
        "CRAWLSTREAM_REST_PORT": str(port),
        "CRAWLSTREAM_METRICS_PORT": str(port + 1),
        "CRAWLSTREAM_METRICS_OFFSET": "0",
        **extra,
    }
    process = MonitorProcess("rest_service", env=env, log=folder / f"rest-{port}.log")
    service = RestProcess(process, port)
    with process.running():
        await until_ready(service)
        yield service


async def until_ready(rest: RestProcess) -> None:
    """Wait until a process has read the replies of the last hour."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if (await rest.get("/health/ready")).status == 200:
                return
        except OSError:
            assert rest.process.is_running(), rest.process.logged()
        await asyncio.sleep(0.1)
    raise AssertionError(rest.process.logged())


async def scrape(rest: RestProcess, url: str, **fields: Any) -> HttpAnswer:
    """Scrape a URL; it is waited for long enough for a busy machine."""
    return await rest.post("/v2/scrape", {"url": url, "wait": 60, **fields})
