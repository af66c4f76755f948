"""How domains answered in the last hour: responses, successes, latency; the busiest ones singly.

A process counts in memory; every ten seconds the counts of its busiest domains are added to one
hash per quarter of an hour. All others are counted together, so that neither the traffic nor the
hashes grow with the number of domains that are crawled. The reasons of failed downloads are sent
with them.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import cast
from urllib.parse import unquote

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from crawlstream.keys import FrontierKeys, encode_id
from crawlstream.model.traffic import DomainTraffic
from crawlstream.stats.windows import QUARTER

FAMILY = "domain"
REASONS_FAMILY = "domain-reason"
OTHERS = "*"
"""Name under which all other domains are counted; no domain has it."""

FLUSH_EVERY_S = 10.0
MOST_A_FLUSH = 200
"""Number of domains of one process that are sent with their names."""
MOST_A_BUCKET = 2_000
"""Domains of a quarter of an hour, about: several processes may find the last room at once."""
MOST_REASONS_A_FLUSH = 3
"""Number of reasons per domain: the most frequent."""
MOST_REASONS_A_BUCKET = 8_000
"""Counters of reasons, about."""
WINDOW_S = 3600
_LEAST_S = 60
"""A rate is a mean over a minute at least."""
TTL_S = WINDOW_S + 2 * QUARTER.width_s

_SUCCESS_BELOW = 400
_COUNTS = ("n", "ok", "timed", "ms")
"""Downloads, those with a status below 400, those with a response, and the time of these in ms."""

_STATUSES = frozenset(HTTPStatus)

log = structlog.get_logger()


class DomainTally:
    """The domains that one process has asked, on their way to Redis."""

    def __init__(self, redis: Redis, keys: FrontierKeys) -> None:
        self._redis = redis
        self._keys = keys
        self._seen: dict[str, Counter[str]] = defaultdict(Counter)
        self._reasons: dict[str, Counter[str]] = defaultdict(Counter)
        self._flush_at = 0.0

    def count(self, domain: str, status: int, latency_ms: int | None, *, reason: str = "") -> None:
        """Add one response; ``latency_ms`` None: the download ended without one, for a reason."""
        seen = self._seen[domain]
        if status >= _SUCCESS_BELOW:
            self._reasons[domain][reason or _reason_of(status)] += 1
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
        # Reasons that Redis does not take are lost: they are hints, counted or not.
        reasons, self._reasons = self._reasons, defaultdict(Counter)
        self._flush_at = time.monotonic() + FLUSH_EVERY_S
        bucket = QUARTER.bucket(time.time())
        key = self._keys.stats(FAMILY, bucket)
        try:
            welcome = await self._welcome(key, seen)
            await self._write(key, _named(seen, welcome))
            told = {domain: reasons[domain] for domain in welcome & reasons.keys()}
            await self._write_reasons(self._keys.stats(REASONS_FAMILY, bucket), told)
        except RedisError as error:
            log.debug("stats", outcome="kept", error=str(error))
            for domain, counts in list(seen.items())[:MOST_A_BUCKET]:
                self._seen[domain].update(counts)

    async def _welcome(self, key: str, seen: Mapping[str, Counter[str]]) -> set[str]:
        """Return the domains to count singly: the busiest, as far as the bucket has room."""
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

    async def _write_reasons(self, key: str, reasons: Mapping[str, Counter[str]]) -> None:
        if not reasons or await self._redis.hlen(key) >= MOST_REASONS_A_BUCKET:
            return
        async with self._redis.pipeline(transaction=False) as pipe:
            for domain, counts in reasons.items():
                for reason, count in counts.most_common(MOST_REASONS_A_FLUSH):
                    pipe.hincrby(key, _field(domain, reason), count)
            pipe.expire(key, TTL_S)
            await pipe.execute()


def _field(domain: str, name: str) -> str:
    return f"{domain if domain == OTHERS else encode_id(domain)}:{name}"


def _reason_of(status: int) -> str:
    """Return the reason of a response; unnamed status codes share one reason per class.

    Otherwise a site could invent any number of reasons.
    """
    return f"http_{status}" if status in _STATUSES else f"http_{status // 100}xx"


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
    names = QUARTER.buckets(now_s)[: len(list(QUARTER.weights(now_s, WINDOW_S)))]
    counted = await _buckets(redis, keys, names, FAMILY)
    totals = _totals(counted, now_s)
    reasons = _totals(await _buckets(redis, keys, names, REASONS_FAMILY), now_s)
    busiest = heapq.nlargest(most, totals, key=lambda domain: totals[domain]["n"])
    return {
        domain: replace(
            _figures(totals[domain], reasons.get(domain, {})),
            per_minute=_rates(counted, domain, now_s),
        )
        for domain in busiest
        if totals[domain]["n"] >= 1
    }


def _rates(counted: Sequence[Mapping[bytes, bytes]], domain: str, now_s: float) -> Sequence[float]:
    """Downloads per minute in each of these buckets, which begin with the latest."""
    field = _field(domain, "n").encode()
    current, *others = [int(bucket.get(field, 0)) for bucket in counted]
    since_s = max(now_s % QUARTER.width_s, _LEAST_S)
    means = [60 * count / QUARTER.width_s for count in reversed(others)]
    return [round(rate, 2) for rate in (*means, 60 * current / since_s)]


async def read_counts(redis: Redis, keys: FrontierKeys, domain: str) -> Mapping[float, int]:
    """Return downloads of a domain by the beginning (epoch s) of the latest quarters of an hour.

    Domains that were never among the busiest have no counts.
    """
    first = int(time.time()) // QUARTER.width_s
    begins = [(first - age) * QUARTER.width_s for age in range(WINDOW_S // QUARTER.width_s, -1, -1)]
    async with redis.pipeline(transaction=False) as pipe:
        for begin in begins:
            pipe.hget(keys.stats(FAMILY, QUARTER.bucket(begin)), _field(domain, "n"))
        found = await pipe.execute()
    return {
        float(begin): int(count)
        for begin, count in zip(begins, found, strict=True)
        if count is not None
    }


def _totals(
    counted: Sequence[Mapping[bytes, bytes]], now_s: float
) -> Mapping[str, Mapping[str, float]]:
    """Each domain's counters in these buckets, added up over the last hour."""
    weights = QUARTER.weights(now_s, WINDOW_S)
    totals: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for bucket, weight in zip(counted, weights, strict=True):
        for field, raw in bucket.items():
            domain, _, name = field.decode().rpartition(":")
            totals[unquote(domain)][name] += int(raw) * weight
    return totals


async def _buckets(
    redis: Redis, keys: FrontierKeys, names: Sequence[str], family: str
) -> Sequence[Mapping[bytes, bytes]]:
    async with redis.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.hgetall(keys.stats(family, name))
        return cast("list[Mapping[bytes, bytes]]", await pipe.execute())


def _figures(counts: Mapping[str, float], reasons: Mapping[str, float]) -> DomainTraffic:
    frequent = heapq.nlargest(len(reasons), reasons, key=lambda reason: reasons[reason])
    timed = counts["timed"]
    return DomainTraffic(
        responses=round(counts["n"]),
        success_rate=round(counts["ok"] / counts["n"], 4),
        latency_ms=round(counts["ms"] / timed) if timed else None,
        reasons={reason: round(reasons[reason]) for reason in frequent if reasons[reason] >= 0.5},
    )
