"""Reading the counters back: every window of every counter of a family."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import cast
from urllib.parse import unquote

from redis.asyncio import Redis

from crawlstream.keys import FrontierKeys
from crawlstream.stats.windows import GRAINS, LIFETIME, WINDOWS_S, grain_for

Counts = Mapping[str, int]
"""Window (``"900"`` … ``"604800"``, ``"lifetime"``) -> count; a window without one is absent."""

_Bucket = Mapping[bytes, bytes]


class CounterHistory:
    """Counts of the past."""

    def __init__(self, redis: Redis, keys: FrontierKeys) -> None:
        self._redis = redis
        self._keys = keys

    async def read(self, family: str) -> Mapping[tuple[str, ...], Counts]:
        """Every counter of a family by its path; one round trip of at most 691 small reads."""
        now_s = time.time()
        names = [name for grain in GRAINS for name in grain.buckets(now_s)]
        buckets = await self._buckets(family, [*names, LIFETIME])
        counted: dict[bytes, dict[str, int]] = defaultdict(dict)
        for window_s in WINDOWS_S:
            for name, count in _window(buckets, now_s, window_s).items():
                counted[name][str(window_s)] = count
        for name, raw in buckets[LIFETIME].items():
            counted[name][LIFETIME] = int(raw)
        return {_path(name): counted[name] for name in sorted(counted)}

    async def forget_machines(self) -> int:
        """Drop the lifetime of machines that were silent for a week; containers come and go."""
        counted = await self.read("machine")
        alive = {path[0] for path, counts in counted.items() if str(WINDOWS_S[-1]) in counts}
        key = self._keys.stats("machine", LIFETIME)
        fields = cast("list[bytes]", await self._redis.hkeys(key))
        silent = [name for name in fields if _path(name)[0] not in alive]
        return int(await self._redis.hdel(key, *silent)) if silent else 0

    async def _buckets(self, family: str, names: Sequence[str]) -> Mapping[str, _Bucket]:
        async with self._redis.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.hgetall(self._keys.stats(family, name))
            return dict(zip(names, await pipe.execute(), strict=True))


def _path(name: bytes) -> tuple[str, ...]:
    return tuple(map(unquote, name.decode().split(":")))


def _window(buckets: Mapping[str, _Bucket], now_s: float, window_s: int) -> Mapping[bytes, int]:
    grain = grain_for(window_s)
    total: Counter[bytes] = Counter()
    partly: dict[bytes, float] = {}
    for bucket, weight in zip(grain.buckets(now_s), grain.weights(now_s, window_s), strict=False):
        for name, raw in buckets[bucket].items():
            if weight == 1:
                total[name] += int(raw)
            else:
                partly[name] = int(raw) * weight
    total.update({name: round(share) for name, share in partly.items()})
    return {name: count for name, count in total.items() if count}
