"""Shares of partitions: several redis-monitors divide them by the heartbeats of the processes.

Each partition is looked after by the two redis-monitors that rank highest for it (rendezvous
hashing): the death of one leaves no partition alone, and partitions of the others change hands only
where needed. Two or more for one partition is always safe; it only costs calls. A redis-monitor
that cannot find out which are alive looks after all partitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from hashlib import blake2b

import structlog
from redis.exceptions import RedisError

from crawlstream.stats.heartbeat import living_in
from crawlstream_frontier.partitions.frontiers import Frontiers
from redis_monitor.periodic import Step

LOOK_EVERY_S = 2.0
CARERS = 2
"""Redis-monitors for each partition, if as many are alive."""

log = structlog.get_logger()


class Sharing:
    """Partitions of one redis-monitor; until it has looked for others, all of them."""

    def __init__(self, frontiers: Frontiers, name: str) -> None:
        """``name`` is that of its heartbeat."""
        self._frontiers = frontiers
        self._name = name
        self._ours: Collection[int] = range(len(frontiers))

    def cares_for(self, partition: int) -> bool:
        """Return whether a partition is among those that it looks after now."""
        return partition in self._ours

    def duty(self, partition: int, step: Step) -> Step:
        """Return a step that runs only while the partition is assigned to this process."""
        if len(self._frontiers) == 1:
            return step

        async def shared() -> float:
            return await step() if self.cares_for(partition) else LOOK_EVERY_S

        return shared

    async def run(self) -> None:
        """Look who is alive, again and again."""
        while len(self._frontiers) > 1:
            await self.look()
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        """Look once."""
        number = len(self._frontiers)
        try:
            heard = await living_in(self._frontiers.heartbeats)
        except (RedisError, OSError):
            self._ours = range(number)
            return
        names = {one.name for one in heard if one.kind == "redis-monitor"}
        ours = shares(names | {self._name}, number)[self._name]
        if ours != self._ours:
            log.info("share", partitions=sorted(ours), redis_monitors=len(names))
        self._ours = ours


def shares(names: Collection[str], partitions: int) -> dict[str, frozenset[int]]:
    """The partitions of each redis-monitor; the same wherever it is computed."""
    carers = {
        p: sorted(names, key=lambda name: _rank(p, name), reverse=True)[:CARERS]
        for p in range(partitions)
    }
    return {name: frozenset(p for p in carers if name in carers[p]) for name in names}


def _rank(partition: int, name: str) -> bytes:
    return blake2b(f"{partition} {name}".encode(), digest_size=8).digest()
