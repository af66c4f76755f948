"""Quotas of a key: waiting pages, and schedules; requests beyond them are refused."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from crawlstream.model.request import ScheduleRequest
from crawlstream_frontier.partitions.frontiers import Frontiers
from rest_service.http.access import Client
from rest_service.http.envelope import RequestRefused
from rest_service.sampler import Sampler

_ON_ITS_WAY_S = 5.0
"""Seconds that fed seeds are counted besides the frontier's, which may not have them yet."""
_FEEDING = frozenset({"set", "resume", "fire"})


class Quota:
    """Checks seeds and schedules before they are fed."""

    def __init__(
        self,
        frontier: Frontiers,
        sampler: Sampler,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._frontier = frontier
        self._sampler = sampler
        self._clock = clock
        self._lately: dict[str, deque[tuple[float, int]]] = {}
        self._set_at: dict[str, dict[tuple[str, str], float]] = {}

    async def admit(self, client: Client, seeds: int) -> None:
        """Count seeds of a client; raise RequestRefused (429) if too many pages are waiting.

        Raises RedisUnavailable if their number is unknown.
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

    async def admit_schedule(self, client: Client, asked: ScheduleRequest) -> None:
        """Count the results of a schedule request: the seeds of one firing, and the schedule.

        Raises RequestRefused (429, 409) beyond the client's quotas, and RedisUnavailable if the
        numbers are unknown.
        """
        if client.schedules is not None and asked.do == "set":
            await self._admit_one_more(client, (asked.appid, asked.name), client.schedules)
        if client.waiting is None or asked.do not in _FEEDING:
            return
        told = asked.schedule
        if told is None:
            found = await self._frontier.schedules.one(asked.appid, asked.name)
            told = found.schedule if found else None
        if told is None:
            return
        if told.seeds_from:
            raise RequestRefused(
                403,
                "This API key has a quota of waiting pages, and seeds_from has any number of seeds:"
                " list them in `seeds`.",
                code="forbidden",
            )
        await self.admit(client, len(told.seeds))

    async def _admit_one_more(self, client: Client, one: tuple[str, str], most: int) -> None:
        """Count a schedule, unless it replaces one of the same name."""
        now = self._clock()
        known = await self._frontier.schedules.names(client.appids)
        lately = self._set_at.setdefault(client.name, {})
        for each in [each for each, at in lately.items() if at < now - _ON_ITS_WAY_S]:
            del lately[each]
        known |= lately.keys()
        if one not in known and len(known) >= most:
            raise RequestRefused(
                409,
                f"Quota exceeded: there are {len(known)} schedules; the maximum for this API key is"
                f" {most}: remove one first.",
                code="too_many_schedules",
            )
        lately[one] = now

    async def _waiting(self, appids: frozenset[str]) -> int:
        named: list[str | None] = [*sorted(appids)] if appids else [None]
        return sum(
            [
                one.pending
                for appid in named
                for one in await self._frontier.queries.crawls(appid=appid)
            ]
        )

    def _fed_lately(self, name: str) -> int:
        fed = self._lately.setdefault(name, deque())
        while fed and fed[0][0] < self._clock() - _ON_ITS_WAY_S:
            fed.popleft()
        return sum(count for _, count in fed)
