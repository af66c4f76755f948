"""How many bytes went through each pool of proxies: by the minute, by the quarter of an hour."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from urllib.parse import unquote

from redis.asyncio import Redis

from crawlstream.keys import FrontierKeys
from crawlstream.stats.windows import grain_for

FAMILY = "proxies"


async def bytes_over(redis: Redis, keys: FrontierKeys, over_s: int) -> Mapping[str, float]:
    """Bytes by pool in the last ``over_s`` seconds, one of ``WINDOWS_S``; RedisError."""
    now, grain = time.time(), grain_for(over_s)
    weights = list(grain.weights(now, over_s))
    names = grain.buckets(now)[: len(weights)]
    async with redis.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.hgetall(keys.stats(FAMILY, name))
        buckets = await pipe.execute()
    sums: defaultdict[str, float] = defaultdict(float)
    for weight, bucket in zip(weights, buckets, strict=True):
        for pool, size in bucket.items():
            sums[unquote(pool.decode())] += weight * int(size)
    return sums
