"""Partitions of a frontier on the nodes of a real Redis Cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import cast

import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.crc import key_slot

from crawlstream.errors import ConfigError, NoFrontier
from crawlstream.keys import SLOTS, Partitions
from crawlstream_chaos.processes import RunningServer
from crawlstream_frontier import sources
from crawlstream_frontier.layout import create_frontier
from crawlstream_frontier.moving import filling
from crawlstream_frontier.opening.redis_check import agree_on_layout
from crawlstream_frontier.scripts import Scripts
from support.frontier.bench import GRACE_MS, endings, links, open_bench
from support.frontier.calls import Call, note_calls
from support.partitions.moving import frontiers_in, move, waiting_in
from support.partitions.servers.redis_cluster import NODES, RunningCluster, redis_cluster

PARTITIONS = Partitions("cs", NODES)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def running_cluster(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[RunningCluster]:
    """A cluster of three nodes."""
    async with redis_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
async def cluster(running_cluster: RunningCluster) -> RunningCluster:
    """The cluster, empty."""
    await running_cluster.empty()
    return running_cluster


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def calls(redis_server: RunningServer) -> Sequence[Call]:
    """Calls of every operation, in their order."""
    return await note_calls(redis_server.port)


async def test_every_operation_runs_on_every_node(
    cluster: RunningCluster, calls: Sequence[Call]
) -> None:
    """Below each tag, without a key in another slot; node p has partition p, and nothing else."""
    assert {call.operation for call in calls} == set(sources.operations())
    slots = []
    async with cluster.client() as redis:
        for partition in range(NODES):
            scripts = Scripts(cast(Redis, redis), PARTITIONS.keys(partition))
            await create_frontier(scripts)
            for call in calls:
                await scripts.run(call.operation, *call.arguments)
    for partition, keys in enumerate(await cluster.keys()):
        tag = PARTITIONS.keys(partition).tag.encode()
        assert len(keys) > 10
        assert all(key.startswith(tag) for key in keys)
        slots += [slot * NODES // SLOTS for slot in {key_slot(key) for key in keys}]
    assert slots == [*range(NODES)]


async def test_a_crawl_lives_and_ends_on_every_node(cluster: RunningCluster) -> None:
    """Seed, lease, links, settle, ending: as on a single Redis, in three frontiers at once."""
    async with cluster.client() as redis:
        benches = [await open_bench(redis, keys=PARTITIONS.keys(p)) for p in range(NODES)]
        for bench in benches:
            await bench.feed.seeds("a.example/")
            (seed,) = await bench.worker.lease()
            await bench.worker.settle(seed, links=[links("a.example", range(3))])
        for bench in benches:
            assert len(await bench.worker.crawl_all()) == 3
            state = await bench.state()
            assert (state.admitted, state.done, state.queued, state.held) == (4, 4, 0, 0)
            await bench.advance(GRACE_MS + 1)
            await bench.frontier.maintenance.tend()
            assert [ending.kind for ending in await endings(bench)] == ["crawl_finished"]


async def test_a_slot_that_is_moved_key_by_key_founds_no_second_frontier(
    cluster: RunningCluster,
) -> None:
    """Commands of a client of redis-py to the empty node are refused there, without a trace."""
    keys = PARTITIONS.keys(0)
    async with cluster.client() as redis:
        bench = await open_bench(redis, keys=keys)
        await bench.feed.seeds("a.example/")
        move = await cluster.begin_move(keys.tag)
        for call in (bench.worker.session.beat, bench.worker.lease, bench.rule):
            with pytest.raises(NoFrontier):
                await call()
        assert (await cluster.keys())[move.target] == []
        await cluster.cancel(move)
        assert len(await bench.worker.crawl_all()) == 1


async def test_processes_agree_on_the_nodes_of_a_cluster(cluster: RunningCluster) -> None:
    """Layout and partitions are created wherever their slots are; another number is refused."""
    async with cluster.client() as client:
        redis = cast(Redis, client)
        await agree_on_layout(redis, PARTITIONS)
        await agree_on_layout(redis, PARTITIONS)
        with pytest.raises(ConfigError, match=r"has 3 partition\(s\)"):
            await agree_on_layout(redis, Partitions("cs"))
    founded = [key for keys in await cluster.keys() for key in keys if key.endswith(b"m")]
    assert founded == [PARTITIONS.keys(p).meta().encode() for p in range(NODES)]


async def test_a_frontier_is_moved_onto_the_nodes_and_back(
    cluster: RunningCluster, redis_server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Moves a frontier into four partitions and back; a cancelled move leaves nothing."""
    monkeypatch.setattr(filling, "DURABLE_S", 0)
    async with Redis(port=redis_server.port) as single, cluster.client() as nodes:
        await single.flushall()
        bench = await open_bench(single)
        await bench.feed.seeds(*(f"{n}.example/" for n in range(40)))
        await bench.owed()
        old, new = frontiers_in(single, 1, "cs"), frontiers_in(cast(Redis, nodes), 4, "cs")
        waiting = await waiting_in(old)
        await move(old, new)
        assert await waiting_in(new) == waiting
        assert all(await cluster.keys())
        last = frontiers_in(single, 1, "last")
        await move(new, last)
        assert await waiting_in(last) == waiting
        await filling.Filling(new, None).wipe()
        assert not any(await cluster.keys())
