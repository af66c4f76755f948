"""Servers for one file of tests.

A Redis, because limits of memory mean little where others have left theirs; a Kafka and a
ZooKeeper, because those that are killed or frozen cannot be shared.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crawlstream_chaos.processes import RunningServer
from support import servers


@pytest.fixture(scope="module", name="redis_server")
def own_redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A new Redis; scripts that other tests have loaded would be most of a small one."""
    with servers.redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="module", name="kafka_server")
def own_kafka_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A new Kafka."""
    with servers.kafka(tmp_path_factory.mktemp("kafka")) as server:
        yield server


@pytest.fixture(scope="module", name="zookeeper_server")
def own_zookeeper_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A new ZooKeeper."""
    with servers.zookeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server
