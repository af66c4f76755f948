"""How domains answered in the last hour: responses, successes, latency; the busiest ones by name.

A process adds up in memory what it sees; every ten seconds its busiest domains travel into one hash
a quarter of an hour. All others are counted as one, so that neither the traffic nor the hashes grow
with the number of domains that are crawled.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import cast
from urllib.parse import unquote

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from crawlstream.keys import FrontierKeys, encode_id
from crawlstream.model.traffic import DomainTraffic
from crawlstream.stats.windows import QUARTER

FAMILY = "domain"
OTHERS = "*"
"""What all domains that are not counted by name are counted as; no domain is called so."""

FLUSH_EVERY_S = 10.0
MOST_A_FLUSH = 200
"""Domains of one process that travel by name."""
MOST_A_BUCKET = 2_000
"""Domains of a quarter of an hour, about: several processes may find the last room at once."""
WINDOW_S = 3600
TTL_S = WINDOW_S + 2 * QUARTER.width_s

_SUCCESS_BELOW = 400
_COUNTS = ("n", "ok", "timed", "ms")
"""Downloads, those with a status below 400, those with a response, and the time of these in ms."""

log = structlog.get_logger()


class DomainTally:
    """The domains that one process has asked, on their way to Redis."""

    def __init__(self, redis: Redis, keys: FrontierKeys) -> None:
        self._redis = redis
        self._keys = keys
        self._seen: dict[str, Counter[str]] = defaultdict(Counter)
        self._flush_at = 0.0

    def count(self, domain: str, status: int, latency_ms: int | None) -> None:
        """Add one response; ``latency_ms`` None: the download ended without one."""
        seen = self._seen[domain]
        seen["n"] += 1
        seen["ok"] += status < _SUCCESS_BELOW
        if latency_ms is not None:
            seen["timed"] += 1
            seen["ms"] += latency_ms

    def hurry(self) -> None:
        """Let the next flush be due."""
        self._flush_at = 0.0

    async def flush_if_due(self) -> None:
        """Every ten seconds write what was counted; what cannot be written is kept."""
        if not self._seen or time.monotonic() < self._flush_at:
            return
        seen, self._seen = self._seen, defaultdict(Counter)
        self._flush_at = time.monotonic() + FLUSH_EVERY_S
        key = self._keys.stats(FAMILY, QUARTER.bucket(time.time()))
        try:
            await self._write(key, _named(seen, await self._welcome(key, seen)))
        except RedisError as error:
            log.debug("stats", outcome="kept", error=str(error))
            for domain, counts in list(seen.items())[:MOST_A_BUCKET]:
                self._seen[domain].update(counts)

    async def _welcome(self, key: str, seen: Mapping[str, Counter[str]]) -> Collection[str]:
        """The domains that are counted by name: the busiest, as far as the bucket has room."""
        busiest = heapq.nlargest(MOST_A_FLUSH, seen, key=lambda domain: seen[domain]["n"])
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.hlen(key)
            pipe.hmget(key, [_field(domain, "n") for domain in busiest])
            fields, known = await pipe.execute()
        room = MOST_A_BUCKET - fields // len(_COUNTS)
        welcome = []
        for domain, count in zip(busiest, known, strict=True):
            room -= count is None
            if count is not None or room >= 0:
                welcome.append(domain)
        return set(welcome)

    async def _write(self, key: str, named: Mapping[str, Counter[str]]) -> None:
        async with self._redis.pipeline(transaction=False) as pipe:
            for domain, counts in named.items():
                for name in _COUNTS:
                    pipe.hincrby(key, _field(domain, name), counts[name])
            pipe.expire(key, TTL_S)
            await pipe.execute()


def _field(domain: str, name: str) -> str:
    return f"{domain if domain == OTHERS else encode_id(domain)}:{name}"


def _named(
    seen: Mapping[str, Counter[str]], welcome: Collection[str]
) -> Mapping[str, Counter[str]]:
    named: dict[str, Counter[str]] = defaultdict(Counter)
    for domain, counts in seen.items():
        named[domain if domain in welcome else OTHERS].update(counts)
    return named


async def read_domains(
    redis: Redis, keys: FrontierKeys, *, most: int = 100
) -> Mapping[str, DomainTraffic]:
    """The busiest domains of the last hour, most responses first; OTHERS among them."""
    now_s = time.time()
    weights = list(QUARTER.weights(now_s, WINDOW_S))
    buckets = await _buckets(redis, keys, QUARTER.buckets(now_s)[: len(weights)])
    totals: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(_COUNTS, 0.0))
    for bucket, weight in zip(buckets, weights, strict=True):
        for field, raw in bucket.items():
            domain, _, name = field.decode().rpartition(":")
            totals[unquote(domain)][name] += int(raw) * weight
    busiest = heapq.nlargest(most, totals, key=lambda domain: totals[domain]["n"])
    return {domain: _figures(totals[domain]) for domain in busiest if totals[domain]["n"] >= 1}


async def read_timings(redis: Redis, keys: FrontierKeys) -> Mapping[str, tuple[int, int]]:
    """Downloads with a response and their milliseconds, over all domains, by quarter of an hour.

    Of the present one and the one before; within a quarter both only grow.
    """
    names = QUARTER.buckets(time.time())[:2]
    buckets = await _buckets(redis, keys, names)
    return {
        name: (_sum(bucket, b":timed"), _sum(bucket, b":ms"))
        for name, bucket in zip(names, buckets, strict=True)
    }


async def _buckets(
    redis: Redis, keys: FrontierKeys, names: Sequence[str]
) -> Sequence[Mapping[bytes, bytes]]:
    async with redis.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.hgetall(keys.stats(FAMILY, name))
        return cast("list[Mapping[bytes, bytes]]", await pipe.execute())


def _sum(bucket: Mapping[bytes, bytes], ending: bytes) -> int:
    return sum(int(raw) for field, raw in bucket.items() if field.endswith(ending))


def _figures(counts: Mapping[str, float]) -> DomainTraffic:
    timed = counts["timed"]
    return DomainTraffic(
        responses=round(counts["n"]),
        success_rate=round(counts["ok"] / counts["n"], 4),
        latency_ms=round(counts["ms"] / timed) if timed else None,
    )
