"""Servers with the partitions of a frontier, for the tests of this folder."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence

import pytest
from redis.asyncio import Redis

from crawlstream_chaos.processes import RunningServer
from crawlstream_frontier.partitions.frontiers import Frontiers
from support.frontier.bench import keep_what_is_answered
from support.partitions.servers.divided import addresses, divided, divided_settings, three_redis


@pytest.fixture(scope="session")
def running_three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sequence[RunningServer]]:
    """Three Redis."""
    with three_redis(tmp_path_factory.mktemp("three")) as running:
        yield running


@pytest.fixture
async def three(running_three: Sequence[RunningServer]) -> AsyncIterator[Sequence[RunningServer]]:
    """Three Redis, empty; those that a test has ended run again after it."""
    for server in running_three:
        async with Redis(port=server.port) as client:
            await client.flushall()
            await keep_what_is_answered(client)
    yield running_three
    for server in running_three:
        if not server.is_running():
            server.start()


@pytest.fixture
async def frontiers(three: Sequence[RunningServer]) -> AsyncIterator[Frontiers]:
    """A frontier of three partitions, each on a Redis of its own."""
    async with divided(divided_settings(REDIS_HOSTS=addresses(three))) as opened:
        yield opened
