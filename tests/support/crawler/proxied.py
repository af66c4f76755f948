"""The fetch lane's client with proxies: real sockets, and pools in a real Redis; no frontier."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from redis.asyncio import Redis

from crawling.egress.patience import Patience
from crawling.egress.routes import Routes
from crawlstream.keys import FrontierKeys
from crawlstream_frontier.frontier import Frontier
from support.crawler.proxies import pools
from support.crawler.visitor import Visitor, visiting


class Bench:
    """A client that goes by the pools in a real Redis."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        frontier = Frontier(redis, FrontierKeys())
        self.pools = frontier.pools
        self.handshakes = frontier.handshakes
        self.environment: dict[str, str] = {}
        patience = Patience(redis, FrontierKeys(), most_s=3600)
        session = frontier.book.session("bench")
        self.routes = Routes(self.pools, patience, session, group="", environment=self.environment)
        self._versions = 0

    async def set(self, text: str) -> None:
        """Let these pools rule, and the client know of them."""
        self._versions += 1
        assert await self.pools.copy(pools(text, self._versions))
        await self.routes.known.look()

    async def of(self, *urls: str, policy: str = "") -> None:
        """Set a table with a pool, ``de``, of these proxies."""
        lines = ", ".join(f'"{url}"' for url in urls)
        await self.set(f"pools: {{de: {{proxies: [{lines}], {policy}}}}}")

    async def wait_longer(self, pool: str, site: str, seconds: float) -> None:
        """Let a site have waited for a proxy of a pool for so much longer."""
        key = FrontierKeys().unserved(pool, site)
        since = await self._redis.get(key)
        assert since is not None, "it waits for nothing"
        await self._redis.set(key, float(since) - seconds, keepttl=True)

    @contextmanager
    def visiting(self, **settings: Any) -> Iterator[Visitor]:
        """A client for the length of the block."""
        with visiting(routes=self.routes, **settings) as visitor:
            yield visitor
