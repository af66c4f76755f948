"""A log of ``incoming`` that lost its end and grew again: told, waited for, and mended by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from kafka import KafkaProducer
from redis.asyncio import Redis

from crawlstream.errors import CrawlstreamError
from crawlstream.model.crawl import CrawlKey
from crawlstream_chaos.kafka_log import cut_log
from crawlstream_chaos.processes import RunningServer
from crawlstream_chaos.witness import Witness
from crawlstream_cli.common.lost_log import lost_logs, recover_partition
from crawlstream_cli.local.ports import free_block
from crawlstream_cli.local.probes import process_status
from crawlstream_frontier.frontier import Frontier
from support import servers
from support.monitors import MonitorCluster, MonitorProcess, Servers
from support.waiting import WaitUntil

APP = "lost"
OLD, LOST, NEW = 40, 15, 25
"""Seeds that have taken effect; how many of them Kafka loses; how many come then."""


@dataclass(frozen=True, slots=True)
class Place:
    """A cluster whose topics are this test's own."""

    cluster: MonitorCluster
    kafka: RunningServer
    monitor: MonitorProcess
    port: int
    """Port of the monitor's health."""

    def asked(self, path: str) -> str:
        """Answer of the monitor."""
        with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            return str(answer.read(), "utf-8")

    def feed(self, crawlid: str, count: int) -> None:
        """Seeds of a crawl, each in a batch of its own."""
        producer = KafkaProducer(bootstrap_servers=self.cluster.kafka_hosts)
        for number in range(count):
            value = json.dumps(seed(crawlid, number)).encode()
            producer.send(self.cluster.topics.incoming, value).get(60)
        producer.close()

    async def admitted(self, crawlid: str) -> int:
        """How many seeds of a crawl have taken effect."""
        async with Redis(port=self.cluster.redis_port) as redis:
            frontier = Frontier(redis, self.cluster.keys)
            state = await frontier.queries.crawl_state(
                CrawlKey("link", APP, crawlid), with_domains=False
            )
        return state.admitted if state else 0

    async def has_admitted(self, crawlid: str, count: int) -> bool:
        """Return whether that number of seeds of a crawl have taken effect."""
        return await self.admitted(crawlid) == count

    async def known(self) -> dict[tuple[str, int], int]:
        """Positions of the partitions that have taken effect."""
        async with Redis(port=self.cluster.redis_port) as redis:
            return await Frontier(redis, self.cluster.keys).positions.known()

    def lose_end(self) -> None:
        """Kafka comes back without what it had written last."""
        self.kafka.kill()
        data = self.kafka.server.folder
        assert cut_log(data, self.cluster.topics.incoming, 0, OLD - LOST) == OLD - LOST
        self.kafka.start()

    async def marks(self) -> list[dict[str, Any]]:
        """Reports about records that are gone."""
        witness = Witness(self.cluster.kafka_hosts, self.cluster.prefix)
        try:
            await asyncio.sleep(1)
            seen = [seen.value for seen in witness.records("rejected")]
            return [value for value in seen if value["reason"] == "out_of_range"]
        finally:
            witness.close()

    async def decide(self, begin: str) -> None:
        """Command that an operator types."""
        await recover_partition(self.cluster.settings(), 0, begin, as_json=False)


def seed(crawlid: str, number: int) -> dict[str, Any]:
    """A crawl request."""
    return {"appid": APP, "crawlid": crawlid, "url": f"http://site{number}.example.com/{crawlid}"}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A Kafka with few topics: after a kill it looks through all that it has."""
    with servers.kafka(tmp_path_factory.mktemp("kafka")) as server:
        yield server


@pytest.fixture
def place(
    redis_server: RunningServer,
    kafka: RunningServer,
    zookeeper_server: RunningServer,
    fresh_name: str,
    tmp_path: Path,
) -> Iterator[Place]:
    """A kafka-monitor at work."""
    used = Servers(redis_server, kafka, zookeeper_server)
    cluster = MonitorCluster(used, name=f"log{fresh_name}", home=tmp_path, partitions=1)
    port = free_block(1)
    with cluster.kafka_monitor(CRAWLSTREAM_METRICS_PORT=str(port)) as monitor:
        yield Place(cluster, kafka, monitor, port)


@pytest.mark.parametrize("is_restarted", [False, True], ids=["alive", "restarted"])
async def test_new_records_are_not_taken_for_lost_ones(
    place: Place, wait_until: WaitUntil, *, is_restarted: bool
) -> None:
    """The loss is reported, nothing is skipped; after a decision every new seed takes effect."""
    place.feed("old", OLD)
    await wait_until(partial(place.has_admitted, "old", OLD))
    if is_restarted:
        place.monitor.stop()
    place.lose_end()
    place.feed("new", NEW)
    if is_restarted:
        place.monitor.start()
    await wait_until(lambda: "lost records" in place.monitor.logged(), timeout_s=60)
    await wait_until(place.marks, timeout_s=60)
    assert await place.admitted("new") == 0
    assert list((await place.known()).values()) == [OLD]

    with pytest.raises(CrawlstreamError, match="stop all kafka-monitors"):
        await place.decide("loss")
    place.monitor.stop()
    await place.decide("loss")
    assert list((await place.known()).values()) == [OLD - LOST]
    place.monitor.start()
    await wait_until(partial(place.has_admitted, "new", NEW))
    assert await place.admitted("old") == OLD


async def test_a_partition_that_waits_for_a_person_is_told_where_people_look(
    place: Place, wait_until: WaitUntil
) -> None:
    """Health, metrics and status say which, why and what to type; no restart is needed for that."""
    place.feed("old", OLD)
    await wait_until(partial(place.has_admitted, "old", OLD))
    settings = place.cluster.settings()
    assert json.loads(place.asked("/health"))["status"] == "ok"
    assert "crawlstream_partition_paused{" not in place.asked("/metrics")
    assert await lost_logs(settings) == []

    place.lose_end()
    await wait_until(lambda: "lost records" in place.monitor.logged(), timeout_s=60)
    await wait_until(lambda: json.loads(place.asked("/health"))["paused"] == [0])
    health = json.loads(place.asked("/health/ready"))
    assert health["status"] == "degraded"
    assert "crawlstream recover --partition 0" in health["problem"]
    assert process_status(place.port) == "ready"
    assert 'crawlstream_partition_paused{partition="0"} 1.0' in place.asked("/metrics")
    (warning,) = await lost_logs(settings)
    assert f"records {OLD - LOST} to {OLD}" in warning
    assert "./crawlstream recover --partition 0" in warning

    place.monitor.stop()
    assert await lost_logs(settings) == [warning]
    await place.decide("loss")
    place.monitor.start()
    place.feed("new", NEW)
    await wait_until(partial(place.has_admitted, "new", NEW))
    assert json.loads(place.asked("/health"))["status"] == "ok"
    assert "crawlstream_partition_paused{" not in place.asked("/metrics")
    assert await lost_logs(settings) == []
