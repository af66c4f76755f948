"""The frontier past the proxies: for faults, and for queries while they last."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from redis.asyncio import Redis
from redis.exceptions import RedisError

from crawlstream.errors import CrawlstreamError
from crawlstream.keys import Partitions
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.state import FrontierState
from crawlstream_frontier.partitions.frontiers import Frontiers, RedisServer
from crawlstream_frontier.partitions.merging import merge_frontier

T = TypeVar("T")

_LOADED_S = 60
_ANSWER_S = 1.0
"""Timeout, so that a frozen Redis is not waited for."""


class Observed:
    """Its partitions, each on a Redis of its own, by number."""

    def __init__(self, ports: Mapping[str, int]) -> None:
        """Connect to the Redis servers; ``ports`` are by server, in the order of the partitions."""
        self.names: Sequence[str] = list(ports)
        """The server of each partition."""
        self.redis = [Redis(port=port, socket_timeout=2) for port in ports.values()]
        servers = [
            RedisServer(name=name, redis=redis, waiting=redis)
            for name, redis in zip(self.names, self.redis, strict=True)
        ]
        self.frontiers = Frontiers(Partitions(number=len(servers)), servers)
        self._latest: dict[int, FrontierState] = {}

    async def close(self) -> None:
        """End the connections."""
        for redis in self.redis:
            await redis.aclose()

    async def state(self) -> FrontierState | None:
        """Return a summary of the frontier; None while no Redis answers.

        A partition that does not answer keeps what it had: its pages count as in flight.
        """
        try:
            answers = await self.frontiers.query(
                lambda frontier: _soon(frontier.queries.state()), within_s=_ANSWER_S
            )
        except (CrawlstreamError, RedisError, OSError, TimeoutError):
            return None
        self._latest |= answers.by_partition
        crawls = max((state.crawls for state in self._latest.values()), default=0)
        return merge_frontier(
            self._latest, answers.missing, crawls=crawls, workers=0, servers=self.names
        )

    async def ask(self, question: Callable[[Frontiers], Awaitable[T]]) -> T:
        """Return the frontier's answer once Redis has loaded all its data."""
        async with asyncio.timeout(_LOADED_S):
            while True:
                with suppress(CrawlstreamError, RedisError, OSError):
                    return await question(self.frontiers)
                await asyncio.sleep(0.2)

    async def done(self, crawls: Sequence[CrawlKey], partitions: Iterable[int]) -> int:
        """Pages of some crawls that are complete in some partitions."""

        async def look(frontiers: Frontiers) -> int:
            parts = [await frontiers[p].queries.states(crawls) for p in partitions]
            return sum(state.done for part in parts for state in part.values())

        return await self.ask(look)


async def _soon(answer: Awaitable[T]) -> T:
    async with asyncio.timeout(2):
        return await answer
