"""Spilled links that Kafka has lost: recall finds it out, and the run ends."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from crawlstream.bus.connect import Kafka
from crawlstream.bus.history import partition_offsets
from crawlstream.bus.records import Out
from crawlstream.bus.shape import TopicShape
from crawlstream.bus.sink import KafkaSink
from crawlstream.bus.topics import ensure_topics, forget_records
from crawlstream.keys import Topics
from crawlstream.model.effects import Outcome, Settle
from crawlstream_chaos.processes import RunningServer
from kafka_monitor import recall
from support.frontier.bench import GRACE_MS, Bench, links, open_bench
from support.spilling import recalling
from support.waiting import WaitUntil


@pytest.fixture
async def bench(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """An empty frontier, whose losses are looked for more often than usual."""
    monkeypatch.setattr(recall, "PASS_EVERY_S", 0.5)
    return await open_bench(redis)


async def spill(bench: Bench, sink: KafkaSink, topic: str, value: bytes = b"") -> None:
    """End a page whose links go to Kafka, or what stands for them there."""
    (lease,) = await bench.worker.lease()
    settle = Settle(token=lease.token, outcome=Outcome.DONE, links=[links("b", range(5))])
    (spilled,) = bench.worker.session.spill(settle)
    await sink.send([Out(topic, value or spilled.value)])
    told = Settle(token=lease.token, outcome=Outcome.DONE, spilled={spilled.chunk: spilled.links})
    await bench.worker.exchange(settles=[told])


@pytest.mark.parametrize("loss", ["deleted", "unreadable"])
async def test_a_run_whose_spilled_links_kafka_has_lost_ends(
    bench: Bench,
    kafka_server: RunningServer,
    wait_until: WaitUntil,
    fresh_name: str,
    loss: str,
) -> None:
    """It fails them with a reason, and publishes that."""
    hosts, topics = [f"127.0.0.1:{kafka_server.port}"], Topics(fresh_name)
    await ensure_topics(Kafka(hosts, shape=TopicShape(partitions=1)), topics)
    await bench.feed.seeds("a/1")
    async with KafkaSink(Kafka(hosts)) as sink:
        if loss == "deleted":
            await spill(bench, sink, topics.overflow)
            await forget_records(Kafka(hosts), topics.overflow, {0: 1})
        else:
            await spill(bench, sink, topics.overflow, b"no record of ours")
        async with recalling(bench.redis, hosts[0], topics):

            async def has_ended() -> bool:
                await bench.advance(3_600_000)
                await bench.tend()
                return (await bench.state()).state == "finished"

            await wait_until(has_ended, timeout_s=60)
    state = await bench.state()
    assert (state.done, state.spilled, state.failed_by_reason) == (1, 0, {"spill_lost": 5})
    await bench.advance(GRACE_MS)
    assert [one.kind for one in await bench.owed()][1:] == ["spill_lost", "crawl_finished"]


async def test_what_redis_lost_with_its_position_is_recalled_again(
    bench: Bench, kafka_server: RunningServer, wait_until: WaitUntil, fresh_name: str
) -> None:
    """A commit of Kafka's says how far an earlier Redis had come: not this one."""
    hosts, topics = [f"127.0.0.1:{kafka_server.port}"], Topics(fresh_name)
    await ensure_topics(Kafka(hosts, shape=TopicShape(partitions=1)), topics)
    await bench.feed.seeds("a/1")

    async def is_back() -> bool:
        state = await bench.state()
        return (state.spilled, state.queued) == (0, 5)

    async with KafkaSink(Kafka(hosts)) as sink:
        await spill(bench, sink, topics.overflow)
        before = {key: await bench.redis.dump(key) for key in await bench.redis.keys()}
        async with recalling(bench.redis, hosts[0], topics):
            await wait_until(is_back)
            await wait_until(lambda: is_committed(hosts, topics.overflow))
        await bench.redis.flushall()
        for key, value in before.items():
            assert value is not None
            await bench.redis.restore(key, 0, value)
        assert (await bench.state()).spilled == 5
        async with recalling(bench.redis, hosts[0], topics):
            await wait_until(is_back)


async def is_committed(hosts: list[str], topic: str) -> bool:
    """Return whether the group has come to the end of the only record."""
    group = topic.removesuffix(".overflow") + ".overflow"
    found = await partition_offsets(Kafka(hosts), topic, group=group)
    return found[0].committed == 1
