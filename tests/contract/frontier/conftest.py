"""Each kind of frontier: of one partition, of three in one Redis, of three on a Redis Cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from redis.asyncio import Redis

from crawlstream_chaos.processes import RunningServer
from crawlstream_frontier.maintenance import FrontierLimits
from crawlstream_frontier.reckoning import Reckoning
from kafka_monitor.partitions import divided_intake
from support.contract.whole import Whole, open_whole
from support.frontier.bench import DEDUPE_MS, GRACE_MS
from support.partitions.bench import DividedBench, open_divided_bench
from support.partitions.servers.divided import THREE, divided, divided_settings
from support.partitions.servers.redis_cluster import RunningCluster, running_cluster


@pytest.fixture(scope="session")
def redis_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """A Redis Cluster of three."""
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(params=["one", "three", "cluster"])
async def bench(
    request: pytest.FixtureRequest, redis_server: RunningServer
) -> AsyncIterator[DividedBench]:
    """A frontier that has nothing yet."""
    given: dict[str, object] = {"REDIS_HOST": "127.0.0.1", "REDIS_PORT": redis_server.port}
    async with Redis(port=redis_server.port) as client:
        await client.flushall()
    if request.param != "one":
        given["CRAWLSTREAM_PARTITIONS"] = THREE
    if request.param == "cluster":
        cluster: RunningCluster = request.getfixturevalue("redis_cluster")
        await cluster.empty()
        given["REDIS_CLUSTER"] = cluster.addresses
    limits = FrontierLimits(finish_grace_ms=GRACE_MS, dedupe_ms=DEDUPE_MS)
    async with divided(divided_settings(**given), limits) as frontiers:
        yield await open_divided_bench(frontiers)


@pytest.fixture(params=[1, THREE])
async def whole(
    request: pytest.FixtureRequest, redis_server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Whole]:
    """An empty frontier of one or three partitions in one Redis, whose clocks only tests move."""
    monkeypatch.setattr(Reckoning, "known", lambda _: (0, 0))
    monkeypatch.setattr(divided_intake, "MOVE_AFTER_S", 0.0)
    given: dict[str, object] = {"REDIS_HOST": "127.0.0.1", "REDIS_PORT": redis_server.port}
    async with Redis(port=redis_server.port) as client:
        await client.flushall()
    if request.param > 1:
        given["CRAWLSTREAM_PARTITIONS"] = request.param
    limits = FrontierLimits(finish_grace_ms=GRACE_MS, dedupe_ms=DEDUPE_MS)
    async with (
        divided(divided_settings(**given), limits) as frontiers,
        open_whole(frontiers) as made,
    ):
        yield made
