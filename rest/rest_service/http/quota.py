"""How much a key may have waiting: seeds beyond that are refused until some of it is done."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from crawlstream.frontier.queries import FrontierQueries
from rest_service.http.access import Client
from rest_service.http.envelope import RequestRefused
from rest_service.sampler import Sampler

_ON_ITS_WAY_S = 5.0
"""What was fed so lately may not wait in the frontier yet, so it counts beside that."""


class Quota:
    """Judges seeds before they are fed."""

    def __init__(
        self,
        frontier: FrontierQueries,
        sampler: Sampler,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._frontier = frontier
        self._sampler = sampler
        self._clock = clock
        self._lately: dict[str, deque[tuple[float, int]]] = {}

    async def admit(self, client: Client, seeds: int) -> None:
        """Count seeds of a client; Refused (429) where too many pages wait already.

        RedisUnavailable: nobody knows how many.
        """
        if client.waiting is None:
            return
        waiting: int = await self._sampler.shared(
            ("waiting", client.appids), lambda: self._waiting(client.appids)
        )
        waiting += self._fed_lately(client.name)
        if waiting + seeds > client.waiting:
            raise RequestRefused(
                429,
                f"Quota exceeded: {waiting} pages are waiting; the maximum for this API key is"
                f" {client.waiting}.",
                code="too_many_waiting",
            )
        self._lately[client.name].append((self._clock(), seeds))

    async def _waiting(self, appids: frozenset[str]) -> int:
        named: list[str | None] = [*sorted(appids)] if appids else [None]
        return sum(
            [one.pending for appid in named for one in await self._frontier.crawls(appid=appid)]
        )

    def _fed_lately(self, name: str) -> int:
        fed = self._lately.setdefault(name, deque())
        while fed and fed[0][0] < self._clock() - _ON_ITS_WAY_S:
            fed.popleft()
        return sum(count for _, count in fed)
