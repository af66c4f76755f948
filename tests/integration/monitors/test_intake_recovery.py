"""Redis is disposable: lost wholly, or restored from an old copy, with crawls in all states."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from kafka.admin import KafkaAdminClient
from redis.asyncio import Redis

from crawlstream.bus.connect import Kafka
from crawlstream.bus.history import topic_id_of
from crawlstream.bus.outbound import Outbound
from crawlstream.bus.shape import TopicShape
from crawlstream.bus.sink import KafkaSink
from crawlstream.bus.tail import end_offsets
from crawlstream.bus.topics import ensure_topics, forget_records
from crawlstream.errors import NoFrontier
from crawlstream.model.crawl import CrawlKey, Lease
from crawlstream.model.effects import Outcome, Settle
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream.throttle.edit import ThrottleEditor
from crawlstream_chaos.processes import RunningServer
from crawlstream_chaos.witness import ENDINGS, Witness
from crawlstream_cli.local.ports import free_block
from crawlstream_frontier.frontier import Frontier
from kafka_monitor.recovery import Recovery
from kafka_monitor.rejections import RejectionPublisher
from kafka_monitor.schedule_memory import ScheduleMemory
from support import servers
from support.frontier.bench import Feed
from support.monitors import MonitorCluster, MonitorProcess, Servers
from support.waiting import WaitUntil

APP = "recovered"
SEEDS = 12
COPY_AGE_S = float(os.environ.get("INTAKE_COPY_AGE_S", "0"))
"""How old the copy is at least that Redis comes back with; a test in a hurry lets it be young."""
WIDE_OPEN = {"QUEUE_HITS": "100000", "QUEUE_WINDOW": "1", "QUEUE_MODERATED": "false"}
DEFAULT = ThrottleRule(hits=100_000, window_s=1)


@dataclass(frozen=True, slots=True)
class Place:
    """A cluster whose Redis is this test's own."""

    cluster: MonitorCluster
    server: RunningServer
    witness: Witness
    monitor: MonitorProcess
    metrics_port: int
    """Health of the kafka-monitor."""

    @property
    def editor(self) -> ThrottleEditor:
        """The rules in ZooKeeper."""
        path = f"/scrapy-cluster/crawler/{self.cluster.prefix}"
        return ThrottleEditor([self.cluster.zookeeper_hosts], path, default=DEFAULT)

    def feed(self, crawlid: str, count: int = SEEDS) -> None:
        """Seeds of a crawl whose spider has its name, so that each is worked on by itself."""
        self.cluster.feed_in_order(crawlid, *(seed(crawlid, number) for number in range(count)))

    def ask(self, crawlid: str, action: str, **aim: int) -> str:
        """An action about a crawl, behind its seeds; its uuid."""
        uuid = f"{crawlid}-{action}"
        name = {"appid": APP, "spiderid": crawlid, "crawlid": crawlid}
        self.cluster.feed_in_order(crawlid, {**name, "uuid": uuid, "action": action, **aim})
        return uuid

    def metrics(self) -> str:
        """The kafka-monitor's figures."""
        with urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=10) as answer:
            return str(answer.read(), "utf-8")

    def endings(self, crawlid: str) -> list[str]:
        """Every record of an ending, repeats included."""
        events = [seen.value["event"] for seen in self.witness.records("events", crawlid=crawlid)]
        return [event for event in events if event in ENDINGS]


@pytest.fixture
def place(
    kafka_server: RunningServer,
    zookeeper_server: RunningServer,
    fresh_name: str,
    tmp_path: Path,
) -> Iterator[Place]:
    """Both monitors at work."""
    home = tmp_path / "monitors"
    home.mkdir()
    with servers.redis(tmp_path / "redis") as server:
        used = Servers(server, kafka_server, zookeeper_server)
        cluster = MonitorCluster(used, name=f"lost{fresh_name}", home=home)
        witness = Witness(cluster.kafka_hosts, cluster.prefix)
        port = free_block(1)
        told = {"CRAWLSTREAM_METRICS_PORT": str(port), **WIDE_OPEN}
        options = {"CRAWLSTREAM_FINISH_GRACE": "0.5", **WIDE_OPEN}
        with cluster.kafka_monitor(**told) as monitor, cluster.redis_monitor(**options):
            yield Place(cluster, server, witness, monitor, port)
        witness.close()


def seed(crawlid: str, number: int) -> dict[str, Any]:
    """A crawl request."""
    url = f"http://site{number}.example.com/{crawlid}"
    return {"appid": APP, "crawlid": crawlid, "spiderid": crawlid, "url": url}


async def crawl(place: Place, spider: str, count: int, wait_until: WaitUntil) -> list[Lease]:
    """Lease that number of pages of a spider and settle them as done."""
    done: list[Lease] = []
    async with Redis(port=place.cluster.redis_port) as redis:
        frontier = Frontier(redis, place.cluster.keys)
        session = frontier.session(f"worker-{spider}", spider)

        async def step() -> bool:
            try:
                leased = await session.exchange(want=count - len(done))
            except NoFrontier:
                return False
            ends = [
                Settle(token=lease.token, outcome=Outcome.DONE, reason="2xx", sent_ms=1)
                for lease in leased.leases
            ]
            assert not (await session.exchange(settles=ends)).stale
            done.extend(leased.leases)
            return len(done) == count

        await wait_until(step)
        await session.retire()
    return done


async def state_of(place: Place, crawlid: str) -> tuple[int, str] | None:
    """Run and state of a crawl, and until when it is paused."""
    async with Redis(port=place.cluster.redis_port) as redis:
        frontier = Frontier(redis, place.cluster.keys)
        state = await frontier.queries.crawl_state(
            CrawlKey(crawlid, APP, crawlid), with_domains=False
        )
    if state is None:
        return None
    until = f" until {state.paused_until}" if state.paused_until else ""
    return state.run, state.state + until


def copy_of(server: RunningServer, to: Path) -> None:
    """Content of the files of a Redis at this moment."""
    server.signal(signal.SIGSTOP)
    try:
        shutil.copytree(server.server.folder / "data", to)
    finally:
        server.signal(signal.SIGCONT)


def restore_copy(server: RunningServer, copy: Path) -> None:
    """Start the Redis again from files of an earlier moment."""
    server.kill()
    shutil.rmtree(server.server.folder / "data")
    shutil.copytree(copy, server.server.folder / "data")
    server.start()


@pytest.mark.parametrize("how", ["restored", "emptied"])
async def test_what_was_over_stays_over_and_the_rest_completes(
    place: Place, how: str, tmp_path: Path, wait_until: WaitUntil
) -> None:
    """Repeats no ending, stop or edit after a loss, and completes the rest under the same ids.

    What was done before the copy is not done again.
    """
    witness = place.witness
    for name in ("before", "since", "amid", "held", "ended", "halfway"):
        place.feed(name)
    await crawl(place, "before", SEEDS, wait_until)
    copied = await crawl(place, "halfway", SEEDS // 2, wait_until)
    await wait_until(lambda: place.endings("before"))
    await wait_until(lambda: state_of(place, "ended"))
    copy_of(place.server, tmp_path / "copy")

    await crawl(place, "since", SEEDS, wait_until)
    first = await crawl(place, "amid", SEEDS // 2, wait_until)
    place.feed("young")
    first += await crawl(place, "young", SEEDS // 2, wait_until)
    rule = {"appid": APP, "domain": "edited.com", "hits": 7, "window": 60}
    edit = witness.feed_request(action="domain-update", **rule)
    asked = [place.ask("held", "pause", until=4_000_000_000), place.ask("ended", "stop"), edit]
    for uuid in asked:
        await witness.answered(uuid)
    await place.editor.set_rule("edited.com", hits=9)
    await wait_until(lambda: place.endings("since") and place.endings("ended"))

    await asyncio.sleep(COPY_AGE_S)
    if how == "restored":
        restore_copy(place.server, tmp_path / "copy")
    else:
        async with Redis(port=place.cluster.redis_port) as redis:
            await redis.flushall()
    sign = '"outcome":"old_copy"' if how == "restored" else '"event":"recover"'
    await wait_until(lambda: sign in place.monitor.logged())
    second = await crawl(place, "young", SEEDS, wait_until)
    second += await crawl(place, "amid", SEEDS, wait_until)
    rest = SEEDS // 2 if how == "restored" else SEEDS
    halfway = await crawl(place, "halfway", rest, wait_until)
    for name in ("amid", "young", "halfway"):
        await wait_until(partial(place.endings, name))

    assert all(lease.recovered for lease in [*second, *halfway])
    whole = {identity(lease) for lease in [*copied, *halfway]}
    assert len(whole) == SEEDS
    assert {identity(lease) for lease in first} <= {identity(lease) for lease in second}
    await wait_until(lambda: is_state(place, "held", (1, "paused until 4000000000")))
    for name, ending in {"before": "finished", "since": "finished", "ended": "stopped"}.items():
        assert place.endings(name) == [f"crawl_{ending}"]
        assert not await leased(place, name)
    replies = Counter(seen.value.get("uuid") for seen in witness.records("outbound_firehose"))
    assert [replies[uuid] for uuid in asked] == [1, 1, 1]
    assert (await place.editor.read()).rules["edited.com"].hits == 9
    place.feed("since", 1)
    await wait_until(lambda: is_state(place, "since", (2, "running")))


async def test_a_partition_without_a_past_knows_what_another_has_lost(
    place: Place, wait_until: WaitUntil
) -> None:
    """It may be the first that goes on: runs that begin there have no number of an earlier one."""
    cluster = place.cluster
    for run in (1, 2):
        cluster.feed_at(0, 0, seed("old", run))
        await wait_until(partial(is_state, place, "old", (run, "running")))
        await crawl(place, "old", 1, wait_until)
        await wait_until(partial(is_state, place, "old", (run, "finished")))
    place.monitor.stop()
    hosts, topic = [cluster.kafka_hosts], cluster.topics.incoming
    topic_id = await topic_id_of(Kafka(hosts), topic)
    async with Redis(port=cluster.redis_port) as redis, KafkaSink(Kafka(hosts)) as sink:
        await redis.flushall()
        frontier, positions = Frontier(redis, cluster.keys), Frontier(redis, cluster.keys).positions
        rejects = RejectionPublisher(Outbound(sink, cluster.topics))
        recovery = Recovery(
            positions,
            sink,
            cluster.topics,
            rejects=rejects,
            kafka=Kafka(hosts),
            group=cluster.prefix,
            schedules=ScheduleMemory(frontier.schedules, Kafka(hosts), cluster.topics),
        )
        assert await recovery.locate(topic_id, 1) == 0
        feed = Feed(frontier, topic_id, 1)
        assert dict((await feed.seeds("site/1", crawl=CrawlKey("new", APP, "new"))).runs) == {0: 3}
        assert await recovery.locate(topic_id, 0) == 0


@pytest.mark.parametrize("how", ["restored", "emptied"])
async def test_a_run_waits_for_a_partition_that_nobody_has_begun_to_read_again(
    place: Place, how: str, tmp_path: Path, wait_until: WaitUntil
) -> None:
    """Its seeds stand in two, of two monitors: they are one run, however late the other one is."""
    cluster, old = place.cluster, 1 if how == "restored" else 0
    for number in range(2):
        cluster.feed_at(number, 0, seed("both", number))
    await wait_until(partial(has_admitted, place, "both", 2))
    copy_of(place.server, tmp_path / "copy")
    for number in range(2):
        cluster.feed_at(number, 0, seed("both", 2 + number))
    await wait_until(partial(has_admitted, place, "both", 4))
    place.monitor.stop()
    hosts, topic = [cluster.kafka_hosts], cluster.topics.incoming
    topic_id = await topic_id_of(Kafka(hosts), topic)
    if how == "restored":
        restore_copy(place.server, tmp_path / "copy")
    async with Redis(port=cluster.redis_port) as redis, KafkaSink(Kafka(hosts)) as sink:
        if how == "emptied":
            await redis.flushall()
        frontier, positions = Frontier(redis, cluster.keys), Frontier(redis, cluster.keys).positions
        rejects, crawlkey = (
            RejectionPublisher(Outbound(sink, cluster.topics)),
            CrawlKey("both", APP, "both"),
        )
        for partition, pages in ((0, 2 + old), (1, 2 - old)):
            recovery = Recovery(
                positions,
                sink,
                cluster.topics,
                rejects=rejects,
                kafka=Kafka(hosts),
                group=cluster.prefix,
                schedules=ScheduleMemory(frontier.schedules, Kafka(hosts), cluster.topics),
            )
            assert await recovery.locate(topic_id, partition) == old
            feed = Feed(frontier, topic_id, partition)
            feed.next = old
            urls = [f"site/{partition}/{offset}" for offset in range(old, 2)]
            assert set((await feed.seeds(*urls, crawl=crawlkey)).runs.values()) == {1}
            done = await crawl(place, "both", pages, wait_until)
            assert {lease.run for lease in done} == {1}
            if partition == 0:
                await asyncio.sleep(2.5)
                assert not place.endings("both")
    await wait_until(lambda: place.endings("both") == ["crawl_finished"])


async def test_a_topic_made_anew_is_told_and_read_from_its_beginning(
    place: Place, wait_until: WaitUntil
) -> None:
    """A marker on the rejected topic reports it; the new topic's records take effect."""
    place.feed("old", 3)
    await wait_until(lambda: is_state(place, "old", (1, "running")))
    place.monitor.stop()
    topic, hosts = place.cluster.topics.incoming, place.cluster.kafka_hosts
    admin = KafkaAdminClient(bootstrap_servers=hosts)
    admin.delete_topics([topic])
    admin.close()
    await ensure_topics(Kafka([hosts], shape=TopicShape(partitions=2)), place.cluster.topics)
    place.feed("new", 1)
    stop = place.ask("old", "stop")
    place.monitor.start()
    await wait_until(lambda: is_state(place, "new", (1, "running")))
    await place.witness.answered(stop)
    assert place.witness.records("rejected", reason="another_topic")
    assert await state_of(place, "old") == (1, "stopped")


async def test_records_that_retention_deleted_are_told_once_and_passed_over(
    place: Place, wait_until: WaitUntil
) -> None:
    """A marker names the offset from which they are gone; records fed after them take effect."""
    cluster = place.cluster
    cluster.feed_in_order("one-partition", seed("old", 0))
    await wait_until(lambda: is_state(place, "old", (1, "running")))
    place.monitor.stop()
    cluster.feed_in_order("one-partition", seed("gone", 0), seed("gone", 1))
    hosts, topic = [cluster.kafka_hosts], cluster.topics.incoming
    await forget_records(Kafka(hosts), topic, await end_offsets(Kafka(hosts), topic))
    cluster.feed_in_order("one-partition", seed("new", 0))
    place.monitor.start()
    await wait_until(lambda: is_state(place, "new", (1, "running")))
    (marker,) = await wait_until(partial(place.witness.records, "rejected", reason="out_of_range"))
    assert (marker.value["offset"], marker.value["raw"]) == (1, None)
    assert 'crawlstream_rejected_total{reason="out_of_range"} 1.0' in place.metrics()
    assert await state_of(place, "gone") is None


def identity(lease: Lease) -> tuple[object, ...]:
    """Parts of a result's id."""
    return lease.crawl, lease.run, lease.entry.url, lease.entry.origin


async def has_admitted(place: Place, crawlid: str, count: int) -> bool:
    """Return whether that number of seeds of a crawl have taken effect."""
    async with Redis(port=place.cluster.redis_port) as redis:
        frontier = Frontier(redis, place.cluster.keys)
        state = await frontier.queries.crawl_state(
            CrawlKey(crawlid, APP, crawlid), with_domains=False
        )
    return state is not None and state.admitted == count


async def is_state(place: Place, crawlid: str, wanted: tuple[int, str]) -> bool:
    """Return whether a crawl has come to this run and state."""
    return await state_of(place, crawlid) == wanted


async def leased(place: Place, spider: str) -> list[Lease]:
    """Pages that a worker of a spider is given now."""
    async with Redis(port=place.cluster.redis_port) as redis:
        session = Frontier(redis, place.cluster.keys).session("curious", spider)
        leases = (await session.exchange(want=50)).leases
        await session.retire()
    return list(leases)
