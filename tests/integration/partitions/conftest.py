"""The servers that a frontier of three partitions works with, and what a client sees of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crawlstream.chaos.processes import RunningServer
from crawlstream.chaos.witness import Witness
from support.monitors import MonitorCluster, Servers

PARTITIONS = 3


@pytest.fixture(scope="session")
def servers(
    redis_server: RunningServer, kafka_server: RunningServer, zookeeper_server: RunningServer
) -> Servers:
    """What monitors work with."""
    return Servers(redis_server, kafka_server, zookeeper_server)


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest, servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> MonitorCluster:
    """The servers, with topics, keys and a node of this module's own."""
    home = tmp_path_factory.mktemp("partitions")
    divided = {"CRAWLSTREAM_PREVIEW": "partitions", "CRAWLSTREAM_PARTITIONS": str(PARTITIONS)}
    return MonitorCluster(servers, name=request.path.stem, home=home, more=divided)


@pytest.fixture(scope="module")
def witness(cluster: MonitorCluster) -> Iterator[Witness]:
    """A client of the cluster."""
    witness = Witness(cluster.kafka_hosts, cluster.prefix)
    yield witness
    witness.close()
