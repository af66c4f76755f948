"""Results of all downloads: per minute for an hour, per quarter of an hour for a week."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from redis.asyncio import Redis

from crawlstream.keys import FrontierKeys
from crawlstream.stats.windows import LIFETIME, grain_for

FAMILY = "traffic"
FAILED = "failed"
"""A download that ended without a response."""
LATENCY_MS = "ms"
"""Milliseconds of all downloads with one."""
KINDS = (FAILED, "5xx", "4xx", "3xx", "2xx")


@dataclass(frozen=True, slots=True)
class Traffic:
    """Downloads of a length of time."""

    counts: tuple[int, ...]
    """By ``KINDS``."""
    ms: int
    """Total time of the downloads with a response."""

    def since(self, before: Traffic) -> Traffic:
        """Return the difference; counters that restarted count from 0."""
        pairs = zip(self.counts, before.counts, strict=True)
        counts = tuple(max(0, now - then) for now, then in pairs)
        return Traffic(counts, max(0, self.ms - before.ms))

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.counts)

    @property
    def success(self) -> float | None:
        """Share with a status below 400; None: there was nothing to judge by."""
        return sum(self.counts[3:]) / self.total if self.total else None

    @property
    def latency_ms(self) -> float | None:
        """Mean of those with a response; None: nothing came back."""
        timed = sum(self.counts[1:])
        return round(self.ms / timed, 1) if timed else None


def kind_of(status: int) -> str:
    """The one of ``KINDS`` that a response is counted as."""
    return f"{min(max(status // 100, 2), 5)}xx"


async def read_total(redis: Redis, keys: FrontierKeys) -> Traffic:
    """Everything since counting began: it only grows."""
    return _traffic(await _read(redis, keys, LIFETIME))


async def read_past(
    redis: Redis, keys: FrontierKeys, span_s: int
) -> Sequence[tuple[float, int, Traffic]]:
    """The buckets of a length of time that are over, oldest first.

    Each with its end (epoch s) and its width (s); one without downloads is there, too.
    """
    now_s = time.time()
    grain = grain_for(span_s)
    ends = range(int(now_s - span_s) // grain.width_s + 1, int(now_s) // grain.width_s + 1)
    async with redis.pipeline(transaction=False) as pipe:
        for end in ends:
            pipe.hgetall(keys.stats(FAMILY, grain.bucket((end - 1) * grain.width_s)))
        buckets = await pipe.execute()
    return [
        (float(end * grain.width_s), grain.width_s, _traffic(bucket))
        for end, bucket in zip(ends, buckets, strict=True)
    ]


async def _read(redis: Redis, keys: FrontierKeys, bucket: str) -> Mapping[bytes, bytes]:
    found = redis.hgetall(keys.stats(FAMILY, bucket))
    return cast("Mapping[bytes, bytes]", await found)


def _traffic(bucket: Mapping[bytes, bytes]) -> Traffic:
    counts = tuple(int(bucket.get(kind.encode(), 0)) for kind in KINDS)
    return Traffic(counts, int(bucket.get(LATENCY_MS.encode(), 0)))
