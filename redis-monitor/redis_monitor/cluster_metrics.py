"""Metrics that are looked up now and then: who lives, how sites answer, what lags."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

from crawlstream.boot.settings import Settings
from crawlstream.bus.connect import Kafka
from crawlstream.bus.history import PartitionOffsets, partition_offsets
from crawlstream.errors import KafkaUnavailable
from crawlstream.model.web.throttle_groups import ADDRESS_GATE
from crawlstream.stats.domains import read_domains
from crawlstream.stats.heartbeat import living_in
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.opening.startup_check import info_of
from crawlstream_frontier.partitions.frontiers import Frontiers
from crawlstream_frontier.throttle_rules import ThrottleRules
from redis_monitor import metrics
from redis_monitor.partitions.links_lag import LinksLag
from redis_monitor.purse_metrics import note_purses

EVERY_S = 10.0
STEPS_A_LOOK = 3
"""Steps between looks at domains: of thousands only the busiest are published."""
BUSIEST = 20
"""Number of domains that have series of their own: each is three series."""
ADDRESSES = "@addresses"
"""Group of the gates of addresses in metrics: of the address at which most domains wait."""
_KAFKA_S = 15.0


class ClusterMetrics:
    """Collects and publishes cluster metrics; several instances may run."""

    def __init__(
        self,
        settings: Settings,
        kafka: Kafka,
        *,
        frontier: Frontiers,
        is_watched: Callable[[], bool],
    ) -> None:
        """Keep the sources; ``is_watched`` returns whether ZooKeeper reports changed rules."""
        links = settings.topics.links
        self._links = LinksLag(frontier, kafka, links) if len(frontier) > 1 else None
        self._settings = settings
        self._kafka = kafka
        self._redis, self._keys = frontier.heartbeats[0]
        self._frontier = frontier
        self._is_watched = is_watched
        self._steps = 0
        self._incoming, self._group = settings.topics.incoming, settings.kafka_group

    async def step(self) -> float:
        """Look once; KafkaUnavailable after all other figures were published."""
        metrics.ZOOKEEPER.set(self._is_watched())
        disk = shutil.disk_usage(existing(Path(self._settings.home)))
        metrics.DISK_FREE.set(disk.free)
        metrics.DISK_SIZE.set(disk.total)
        await self._processes()
        if self._steps % STEPS_A_LOOK == 0:
            await self._domains()
            await note_gates(self._frontier.rules)
            await self._proxies()
            await note_purses(self._frontier.root.purses)
        self._steps += 1
        await self._writes()
        await self._lag()
        return EVERY_S

    async def _processes(self) -> None:
        processes = await living_in(self._frontier.heartbeats)
        metrics.PROCESSES.clear()
        for (kind, version), count in Counter((p.kind, p.version) for p in processes).items():
            metrics.PROCESSES.labels(kind, version).set(count)

    async def _domains(self) -> None:
        busiest = await read_domains(self._redis, self._keys, most=BUSIEST)
        for gauge in (
            metrics.DOMAIN_RESPONSES,
            metrics.DOMAIN_SUCCESS,
            metrics.DOMAIN_LATENCY,
        ):
            gauge.clear()
        for domain, traffic in busiest.items():
            metrics.DOMAIN_RESPONSES.labels(domain).set(traffic.responses)
            metrics.DOMAIN_SUCCESS.labels(domain).set(traffic.success_rate)
            if traffic.latency_ms is not None:
                metrics.DOMAIN_LATENCY.labels(domain).set(traffic.latency_ms / 1000)

    async def _proxies(self) -> None:
        table = await self._frontier.pools.table()
        states = () if table is None else await self._frontier.book.states(table)
        metrics.PROXIES.clear()
        metrics.PROXY_BUDGET.clear()
        for state in states:
            if state.pool.disabled:
                continue
            for name, count in state.states.items():
                metrics.PROXIES.labels(state.pool.name, name).set(count)
            if state.budget_left is not None:
                metrics.PROXY_BUDGET.labels(state.pool.name).set(state.budget_left)

    async def _writes(self) -> None:
        metrics.WRITES.set(all((await self._frontier.query(_writes)).values))

    async def _lag(self) -> None:
        try:
            async with asyncio.timeout(_KAFKA_S):
                partitions = await partition_offsets(self._kafka, self._incoming, group=self._group)
                if self._links:
                    await self._links.look()
        except TimeoutError as error:
            raise KafkaUnavailable from error
        for partition, found in partitions.items():
            metrics.LAG.labels(str(partition)).set(lag_of(found))


async def note_gates(rules: ThrottleRules) -> None:
    """Publish how many domains wait in each gate, and how long; RedisUnavailable."""
    table = await rules.table()
    gates = await rules.gates(list(table.groups.gates())) if table and table.groups else ()
    metrics.GATE_WAIT.clear()
    metrics.GATE_DOMAINS.clear()
    waits = defaultdict[str, float](float)
    for gate in gates:
        name = ADDRESSES if gate.name.startswith(ADDRESS_GATE) else gate.group
        waits[name] = max(waits[name], gate.wait_s)
        metrics.GATE_WAIT.labels(name).set(waits[name])
        metrics.GATE_DOMAINS.labels(name).inc(gate.waiting)


async def _writes(frontier: Frontier) -> bool:
    """Return whether the server of a partition can write its files."""
    told = await info_of(frontier, "persistence")
    written = [name for name in told if name.endswith(("_write_status", "_bgsave_status"))]
    return all(told[name] == "ok" for name in written)


def existing(folder: Path) -> Path:
    """The folder, or where it would be made."""
    folder = folder.absolute()
    return next(place for place in (folder, *folder.parents) if place.exists())


def lag_of(found: PartitionOffsets) -> int:
    """Records behind the last commit; all there are where nothing was committed, or too much."""
    committed = found.committed or 0
    # More than there is was committed for a topic of this name that is gone.
    return found.end - max(found.oldest, committed if committed <= found.end else 0)
