"""How long pages wait for a proxy: for as long as others wait for their site, and no longer.

The cluster notes since when no proxy of a pool has come through to a site, whichever worker asked.
The note is renewed while pages ask in vain, and goes with the first answer.
"""

from __future__ import annotations

import asyncio
import time

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from crawlstream.keys import FrontierKeys

TOLD_EVERY_S = 60.0
"""Seconds between two notes that a pool reaches a site."""
_FLUSH_EVERY_S = 5.0
_NOTE_S = 900
"""Seconds after which a note expires unless renewed: pages check at least every 30 s."""
_MOST_REMEMBERED = 20_000

log = structlog.get_logger()

Pair = tuple[str, str]
"""Pool and site."""


class Patience:
    """Says of a page that no proxy will do for whether it has waited long enough."""

    def __init__(self, redis: Redis, keys: FrontierKeys, *, most_s: float) -> None:
        """``most_s``: maximum time that pages wait."""
        self._redis = redis
        self._keys = keys
        self._most_s = most_s
        self._told_at: dict[Pair, float] = {}
        self._to_tell: set[Pair] = set()

    def served(self, pool: str, site: str) -> None:
        """A proxy of the pool has come through to the site."""
        pair, now = (pool, site), time.monotonic()
        if now - self._told_at.get(pair, -TOLD_EVERY_S) >= TOLD_EVERY_S:
            if len(self._told_at) >= _MOST_REMEMBERED:
                self._told_at.clear()
            self._told_at[pair] = now
            self._to_tell.add(pair)

    async def is_over(self, pool: str, site: str) -> bool:
        """Return whether the pool has had no fit proxy for too long; False: unknown.

        Measured by Redis' clock, which all workers share.
        """
        key = self._keys.unserved(pool, site)
        self._to_tell.discard((pool, site))
        self._told_at.pop((pool, site), None)
        try:
            async with self._redis.pipeline(transaction=True) as pipe:
                pipe.time()
                pipe.get(key)
                pipe.expire(key, _NOTE_S)
                (seconds, micros), since, _ = await pipe.execute()
            now = seconds + micros / 1e6
            if since is None:
                await self._redis.set(key, f"{now:.6f}", nx=True, ex=_NOTE_S)
        except RedisError as error:
            log.warning("proxies", outcome="not_noted", error=str(error))
            return False
        return since is not None and now - float(since) > self._most_s

    async def follow(self) -> None:
        """Report repeatedly."""
        while True:
            await asyncio.sleep(_FLUSH_EVERY_S)
            await self.drop_served()

    async def drop_served(self) -> None:
        """Drop the notes of what was served."""
        pairs, self._to_tell = self._to_tell, set()
        try:
            if pairs:
                await self._redis.unlink(*(self._keys.unserved(*pair) for pair in pairs))
        except RedisError as error:
            self._to_tell |= pairs
            log.warning("proxies", outcome="not_noted", error=str(error))
