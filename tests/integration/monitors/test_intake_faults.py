"""Two kafka-monitors that are killed, join and leave: every request takes effect exactly once."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import cycle
from typing import Any

import pytest
from kafka import KafkaProducer

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from crawlstream_frontier.frontier import Frontier
from support.monitors import MonitorCluster, MonitorProcess, Servers
from support.waiting import WaitUntil

APP = "faults"
PARTITIONS = 4
REQUESTS = int(os.environ.get("INTAKE_REQUESTS", "4000"))
KILLS = int(os.environ.get("INTAKE_KILLS", "2"))
STOPS = int(os.environ.get("INTAKE_STOPS", "20"))
"""The long forms are 50 000 requests, 20 kills and 200 stops: about ten minutes."""

PATIENCE_S = 120.0
WIDE_OPEN = ThrottleRule(hits=1_000_000, window_s=1, moderated=False, concurrency=1_000_000)


class Clients:
    """Clients that choose the partition of each record, and give it no key."""

    def __init__(self, cluster: MonitorCluster) -> None:
        self._topic = cluster.topics.incoming
        self._producer = KafkaProducer(bootstrap_servers=cluster.kafka_hosts)
        self._turns = cycle(range(PARTITIONS))

    def feed(self, *requests: dict[str, Any], partition: int | None = None) -> None:
        """Append requests to one partition, or to all in turn; whatever follows is younger."""
        for request in requests:
            chosen = next(self._turns) if partition is None else partition
            self._producer.send(self._topic, json.dumps(request).encode(), partition=chosen)
        self._producer.flush(PATIENCE_S)
        appended_ms = time.time_ns() // 10**6
        while time.time_ns() // 10**6 == appended_ms:
            pass

    def close(self) -> None:
        """End the connection."""
        self._producer.close()


class Monitors:
    """Two monitors that are killed in turns, and a third that joins and leaves."""

    def __init__(self, cluster: MonitorCluster, stack: ExitStack) -> None:
        started = [stack.enter_context(cluster.kafka_monitor()) for _ in range(2)]
        self._turns = cycle(started)
        self._guest: MonitorProcess | None = None
        self._cluster, self._stack = cluster, stack

    def kill_one(self) -> None:
        """Kill a monitor and start it again; the third one comes or goes."""
        monitor = next(self._turns)
        monitor.kill()
        monitor.start()
        if self._guest is None:
            self._guest = self._stack.enter_context(self._cluster.kafka_monitor())
        else:
            self._guest.stop()
            self._guest = None


@pytest.fixture
def cluster(
    servers: Servers, fresh_name: str, tmp_path_factory: pytest.TempPathFactory
) -> MonitorCluster:
    """The servers, with topics of this test's own."""
    home = tmp_path_factory.mktemp("monitors")
    return MonitorCluster(servers, name=f"faults{fresh_name}", home=home, partitions=PARTITIONS)


@pytest.fixture
def clients(cluster: MonitorCluster) -> Iterator[Clients]:
    """The producer of requests."""
    clients = Clients(cluster)
    yield clients
    clients.close()


@pytest.fixture
def monitors(cluster: MonitorCluster) -> Iterator[Monitors]:
    """Processes at work."""
    with ExitStack() as stack:
        yield Monitors(cluster, stack)


def seed(crawlid: str, name: str) -> dict[str, Any]:
    """A crawl request."""
    url = f"http://site{len(name) + ord(name[-1])}.example.com/{name}"
    return {"appid": APP, "crawlid": crawlid, "url": url}


async def admitted(frontier: Frontier, crawlid: str) -> int:
    """How many requests of a crawl have taken effect."""
    state = await frontier.queries.crawl_state(CrawlKey("link", APP, crawlid), with_domains=False)
    return state.admitted if state else 0


async def has_grown(frontier: Frontier, beyond: int) -> bool:
    """Return whether more than that number of requests have taken effect."""
    return await admitted(frontier, "all") > beyond


async def test_requests_take_effect_once_through_kills_joins_and_leaves(
    frontier: Frontier, clients: Clients, monitors: Monitors, wait_until: WaitUntil
) -> None:
    """Each kill lands during the intake, and in the end there is one effect of each request."""
    fed = landed = 0
    portion = REQUESTS // (2 * KILLS)

    while landed < KILLS:
        before = await admitted(frontier, "all")
        clients.feed(*(seed("all", str(number)) for number in range(fed, fed + portion)))
        fed += portion
        grown = partial(has_grown, frontier, before)
        await wait_until(grown, timeout_s=PATIENCE_S, every_s=0.005)
        monitors.kill_one()
        landed += await admitted(frontier, "all") < fed
    total = max(fed, REQUESTS)
    clients.feed(*(seed("all", str(number)) for number in range(fed, total)))
    await wait_until(partial(has_grown, frontier, total - 1), timeout_s=PATIENCE_S)
    await nothing_is_left(frontier, clients, wait_until)
    state = await frontier.queries.crawl_state(CrawlKey("link", APP, "all"), with_domains=False)
    assert state is not None
    assert (state.admitted, state.queued, state.residual) == (total, total, 0)


async def test_after_feed_stop_feed_only_the_last_is_left(
    frontier: Frontier, clients: Clients, monitors: Monitors, wait_until: WaitUntil
) -> None:
    """Keeps only the last feed, through one partition or three, under kills."""
    for number in range(STOPS):
        for name, partitions in {"one": (0, 0, 0), "three": (0, 1, 2)}.items():
            crawlid = f"{name}-{number}"
            stop = {"uuid": "u", "appid": APP, "spiderid": "link", "crawlid": crawlid}
            records = (
                seed(crawlid, f"old-{crawlid}"),
                {**stop, "action": "stop"},
                seed(crawlid, f"new-{crawlid}"),
            )
            for record, partition in zip(records, partitions, strict=True):
                clients.feed(record, partition=(number + partition) % PARTITIONS)
        if number % (STOPS // KILLS) == STOPS // KILLS // 2:
            monitors.kill_one()
    await nothing_is_left(frontier, clients, wait_until)
    await frontier.rules.copy(ThrottleTable(default=WIDE_OPEN, czxid=1, mzxid=1))
    paths: list[str] = []
    worker = frontier.session("worker", "link")
    while leases := (await worker.exchange(want=200)).leases:
        paths += [lease.entry.url.rpartition("/")[2] for lease in leases]
    left = sorted(path for path in paths if not path.startswith("last"))
    assert left == sorted(
        f"new-{name}-{number}" for name in ("one", "three") for number in range(STOPS)
    )


async def nothing_is_left(frontier: Frontier, clients: Clients, wait_until: WaitUntil) -> None:
    """Wait until everything that was fed before has been read, in all partitions.

    And read again, where a stop was read late.
    """
    positions = Frontier(frontier.scripts.redis, frontier.scripts.keys).positions
    for partition in range(PARTITIONS):
        clients.feed(seed("last", f"last-{partition}"), partition=partition)

    async def are_read() -> bool:
        is_read = await admitted(frontier, "last") == PARTITIONS
        return is_read and not await positions.again()

    await wait_until(are_read, timeout_s=PATIENCE_S)
