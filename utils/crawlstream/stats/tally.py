"""Counting, cheaply: in memory, and once a second into Redis."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from crawlstream.keys import FrontierKeys, encode_id
from crawlstream.stats import traffic
from crawlstream.stats.domains import DomainTally
from crawlstream.stats.windows import GRAINS, LIFETIME

FLUSH_EVERY_S = 1.0
"""How long a count may be missing from an answer, and is lost with its process."""

log = structlog.get_logger()


class Tally:
    """The counters of one process, on their way to Redis.

    What could not be written is kept and added to the next flush. The number of different
    counters is the caller's to bound: names of classes, spiders, machines, statuses; never ids.
    """

    def __init__(self, redis: Redis, keys: FrontierKeys) -> None:
        self._redis = redis
        self._keys = keys
        self._pending: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self.domains = DomainTally(redis, keys)

    def count(self, family: str, *path: str, by: int = 1) -> None:
        """Add to one counter of a family, named by its path."""
        self._pending[family, path] += by

    def count_response(self, spider: str, machine: str, status: int) -> None:
        """Count one response, or 504 for a download that ended without one."""
        self.count("spider", spider, str(status))
        self.count("machine", machine, str(status))

    def count_traffic(self, status: int, latency_ms: int | None) -> None:
        """Count one download by what it brought; ``latency_ms`` None: nothing."""
        if latency_ms is None:
            self.count(traffic.FAMILY, traffic.FAILED)
            return
        self.count(traffic.FAMILY, traffic.kind_of(status))
        self.count(traffic.FAMILY, traffic.LATENCY_MS, by=latency_ms)

    async def flush(self) -> None:
        """Write what was counted since the last flush, in one round trip."""
        counted, self._pending = self._pending, Counter()
        if counted:
            try:
                await self._write(counted)
            except RedisError as error:
                self._pending.update(counted)
                log.debug("stats", outcome="kept", error=str(error))
        await self.domains.flush_if_due()

    async def run(self) -> None:
        """Flush every second until cancelled, and once more then."""
        try:
            while True:
                await asyncio.sleep(FLUSH_EVERY_S)
                await self.flush()
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_EVERY_S):
                    self.domains.hurry()
                    await self.flush()

    async def _write(self, counted: Counter[tuple[str, tuple[str, ...]]]) -> None:
        now_s = time.time()
        async with self._redis.pipeline(transaction=False) as pipe:
            for (family, path), by in counted.items():
                field = ":".join(map(encode_id, path))
                for grain in GRAINS:
                    pipe.hincrby(self._keys.stats(family, grain.bucket(now_s)), field, by)
                pipe.hincrby(self._keys.stats(family, LIFETIME), field, by)
            for family in {family for family, _ in counted}:
                for grain in GRAINS:
                    pipe.expire(self._keys.stats(family, grain.bucket(now_s)), grain.ttl_s)
            await pipe.execute()
