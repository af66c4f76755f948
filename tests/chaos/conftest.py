"""A whole cluster, a witness of its topics, webs to crawl; and a cluster whose servers can die."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from crawlstream_chaos.cluster import ChaosCluster
from e2e.fixtures import cluster_fixture, serve_fixture, witness_fixture

collect_ignore = (
    []
    if os.environ.get("CRAWLSTREAM_LONG") == "1"
    else [
        *("test_scenarios.py", "test_partition_scenarios.py"),
        "scrapes/test_scrape_scenarios.py",
    ]
)
"""Files that take many minutes, which an option includes."""

__all__ = ["cluster_fixture", "serve_fixture", "witness_fixture"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chaos_cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ChaosCluster]:
    """A cluster and a site of 150 pages, for the scenarios of one file."""
    home = tmp_path_factory.mktemp("chaos")
    async with ChaosCluster(home, pages=150, hosts=5, renderers=1) as cluster:
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def divided_cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ChaosCluster]:
    """A cluster with a frontier of three partitions."""
    home = tmp_path_factory.mktemp("chaos")
    async with ChaosCluster(home, pages=150, hosts=9, partitions=3) as cluster:
        yield cluster
