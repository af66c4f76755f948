"""The servers that monitors and REST work with, and what a client sees of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from redis.asyncio import Redis

from crawlstream_chaos.processes import RunningServer
from crawlstream_chaos.witness import Witness
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.maintenance import FrontierLimits
from support.monitors import MonitorCluster, Servers, named_after


@pytest.fixture(scope="session")
def servers(
    redis_server: RunningServer, kafka_server: RunningServer, zookeeper_server: RunningServer
) -> Servers:
    """Servers and settings that monitors work with."""
    return Servers(redis_server, kafka_server, zookeeper_server)


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest, servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> MonitorCluster:
    """The servers, with topics, keys and a node of this module's own."""
    home = tmp_path_factory.mktemp("monitors")
    return MonitorCluster(servers, name=named_after(request.path), home=home)


@pytest.fixture(scope="module")
def witness(cluster: MonitorCluster) -> Iterator[Witness]:
    """A client of the cluster."""
    witness = Witness(cluster.kafka_hosts, cluster.prefix)
    yield witness
    witness.close()


@pytest.fixture
async def redis(cluster: MonitorCluster) -> AsyncIterator[Redis]:
    """A client of the cluster's Redis, left as it is."""
    async with Redis(host="127.0.0.1", port=cluster.redis_port) as client:
        yield client


@pytest.fixture
def frontier(redis: Redis, cluster: MonitorCluster) -> Frontier:
    """Content that the monitors have put into Redis."""
    return Frontier(redis, cluster.keys, FrontierLimits())
