"""Fixtures of the bus' tests; a module has them by ``pytest_plugins``."""

from __future__ import annotations

import gc
import logging
from collections.abc import AsyncIterator, Iterator

import pytest

from crawlstream.bus.connect import Kafka
from crawlstream.bus.shape import TopicShape
from crawlstream.bus.sink import KafkaSink
from crawlstream.bus.topics import ensure_topics
from crawlstream.keys import Topics
from crawlstream_chaos.processes import RunningServer
from support.bus.pipe import Ledger, Pipe


@pytest.fixture
def sockets_collected(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Collect such sockets here, where it does no harm; a log record would keep them."""
    caplog.set_level(logging.CRITICAL, "kafka")
    yield
    gc.collect()


@pytest.fixture
def hosts(kafka_server: RunningServer) -> list[str]:
    """Where Kafka is."""
    return [f"127.0.0.1:{kafka_server.port}"]


@pytest.fixture
async def pipe(hosts: list[str], fresh_name: str) -> AsyncIterator[Pipe]:
    """A pipe of this test's own."""
    topics = Topics(fresh_name)
    await ensure_topics(Kafka(hosts, shape=TopicShape(partitions=4)), topics)
    async with KafkaSink(Kafka(hosts)) as sink:
        yield Pipe(hosts, topics.incoming, sink, Ledger())
