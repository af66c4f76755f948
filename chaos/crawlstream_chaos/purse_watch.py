"""The operator of a purse: looks at it all the time, and adopts it after Redis was restarted.

As docs/paying.md has it: the bills of the sites are compared with the report first, and the budget
is lowered by what is missing there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from redis.exceptions import RedisError

from crawlstream.errors import CrawlstreamError
from crawlstream.tasks import wait_until
from crawlstream_chaos.facts.facts import RoundFailed
from crawlstream_chaos.facts.spending import PurseSample, Spending, charged
from crawlstream_cli.demo.access_log import LoggedRequest
from crawlstream_frontier.egress.purse import Purse, PurseState
from crawlstream_frontier.egress.purses import OK, Purses

T = TypeVar("T")

_EVERY_S = 0.25
_ANSWER_S = 2
_BACK_S = 120
_STEADY_S = 6
"""A settlement is tried for about so long, or never."""
LATE_S = 5.0
"""A purse is adopted so long after its end: what was offered before has arrived by then."""


class PurseWatch:
    """Keeps one purse; :meth:`run` it during the round."""

    def __init__(
        self,
        purses: Callable[[], Purses],
        visits: Callable[[], Sequence[LoggedRequest]],
        *,
        purse: Purse,
        prices: Mapping[str, int],
        late_s: float = LATE_S,
    ) -> None:
        """``visits``: all visits of the charging site so far; ``prices``: by URL."""
        self._purses = purses
        self._visits = visits
        self._purse = purse
        self._prices = prices
        self._late_s = late_s
        self._samples: list[PurseSample] = []
        self._missing = 0
        self._closed_at: float | None = None

    @property
    def name(self) -> str:
        """The purse, as crawls name it."""
        return self._purse.name

    async def open(self) -> None:
        """Begin with a purse that has spent nothing."""
        await self._surely(lambda purses: purses.remove(self.name))
        await self._put()

    async def run(self) -> None:
        """Look at the purse, and adopt it, until cancelled."""
        while True:
            with suppress(CrawlstreamError, RedisError, OSError, TimeoutError):
                async with asyncio.timeout(_ANSWER_S):
                    await self._look()
            await asyncio.sleep(_EVERY_S)

    async def spending(self) -> Spending:
        """Return all that was seen, once no settlement is on its way."""
        seen: list[tuple[float, int]] = []

        async def is_quiet() -> bool:
            state = await self._surely(self._look_with)
            now = time.monotonic()
            if not seen or seen[-1][1] != state.open:
                seen.append((now, state.open))
            return not state.open or now - seen[-1][0] > _STEADY_S

        await wait_until(is_quiet, timeout_s=_BACK_S, every_s=_EVERY_S)
        return Spending(
            budget=self._budget,
            prices=self._prices,
            samples=tuple(self._samples),
            open=(await self._surely(lambda purses: purses.details(self.name))).reservations,
        )

    @property
    def _budget(self) -> int:
        return self._purse.total or 0

    async def _look(self) -> None:
        state = await self._look_with(self._purses())
        if not state.is_closed:
            self._closed_at = None
        elif self._closed_at is None:
            self._closed_at = time.monotonic()
        elif time.monotonic() - self._closed_at > self._late_s:
            await self._adopt(state)

    async def _look_with(self, purses: Purses) -> PurseState:
        at = time.monotonic() * 1000
        state = await purses.state(self.name)
        if state is None:
            raise RoundFailed(f"the purse {self.name} is gone")
        self._samples.append(PurseSample(at=at, state=state, missing=self._missing))
        return state

    async def _adopt(self, state: PurseState) -> None:
        bill = sum(map(charged, self._visits()))
        self._missing = max(self._missing, bill - state.total)
        await self._put()
        await self._purses().adopt(self.name)

    async def _put(self) -> None:
        budget = max(0, self._budget - self._missing)
        purse = replace(self._purse, day=budget, total=budget)
        if await self._surely(lambda purses: purses.put(purse)) != OK:
            raise RoundFailed(f"the purse {self.name} cannot be set")

    async def _surely(self, do: Callable[[Purses], Awaitable[T]]) -> T:
        """Return the answer of a Redis that a fault may have struck."""
        async with asyncio.timeout(_BACK_S):
            while True:
                with suppress(CrawlstreamError, RedisError, OSError):
                    return await do(self._purses())
                await asyncio.sleep(_EVERY_S)
