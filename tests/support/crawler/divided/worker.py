"""A worker with a session in each of several partitions, in virtual time: its real lease loops."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest

from crawling.lease.leases import Leases
from crawling.metrics import Meter
from crawling.page.page import Page
from crawling.runtime import lease_loop
from crawling.runtime.lease_loop import LeaseLoop, Shared
from crawlstream.model.effects import ExchangeResult, Outcome
from support.crawler.divided.virtual_time import VirtualLoop, run_virtually
from support.crawler.leases import lease

ANSWER_S = 0.002
_MANY = 10**6


class Sleeper:
    """As the frontier's, without a subscription."""

    def __init__(self) -> None:
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """There is work."""
        self._woken.set()

    async def sleep(self, timeout_s: float) -> None:
        """Return when woken, or after the timeout."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._woken.wait()
        except TimeoutError:
            pass
        self._woken.clear()


class Partition:
    """Answers calls, with as many pages as it has."""

    def __init__(self, number: int, names: count[int]) -> None:
        self.partition = number
        self.waiting = _MANY
        self.calls = self.granted = 0
        self.hangs = False
        self._names = names

    async def exchange(self, *, want: int, **_: Any) -> ExchangeResult:
        """As ``WorkerSession.exchange``."""
        self.calls += 1
        asked_at = asyncio.get_running_loop().time()
        await asyncio.sleep(_MANY if self.hangs else ANSWER_S)
        granted = min(want, self.waiting)
        self.waiting -= granted
        self.granted += granted
        return ExchangeResult(
            leases=[
                lease(next(self._names), partition=self.partition, issued_at=asked_at)
                for _ in range(granted)
            ],
            stale=frozenset(),
            redis_epoch=1,
            next_due_ms=None,
            rules_known=True,
            refused=frozenset(),
            is_crowded=None,
        )


class DividedWorker:
    """Its loops, and a site that takes ``takes_s`` for each page."""

    def __init__(
        self, partitions: int, *, slots: int, takes_s: float, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._loop = VirtualLoop()
        monkeypatch.setattr(lease_loop, "time", self._loop)
        names = count()
        self.partitions = [Partition(number, names) for number in range(partitions)]
        self.sleepers = [Sleeper() for _ in self.partitions]
        self._shared = Shared(ready=asyncio.Queue(), meter=Meter("link", 4), may_lease=lambda: True)
        self._leases = Leases(slots, self._shared.turns.news, self._loop.time)
        self._takes_s = takes_s

    def run(self, *steps: Any) -> None:
        """Work until these are over: seconds, or what is called in between."""
        run_virtually(self._loop, self._run(steps))

    async def _run(self, steps: Sequence[Any]) -> None:
        loops = [
            LeaseLoop(each, self._leases, self, sleeper, shared=self._shared)  # type: ignore[arg-type]
            for each, sleeper in zip(self.partitions, self.sleepers, strict=True)
        ]
        working = [asyncio.create_task(loop.run()) for loop in loops]
        for step in steps:
            if callable(step):
                step()
            else:
                await asyncio.sleep(step)
        for task in (others := asyncio.all_tasks() - {asyncio.current_task()}):
            task.cancel()
        await asyncio.gather(*working, *others, return_exceptions=True)

    def screen(self, pages: Sequence[Page], _allow: Any) -> None:
        """As ``Robots.screen``; each page is fetched."""
        for page in pages:
            self._fetching = asyncio.ensure_future(self._fetch(page))

    async def _fetch(self, page: Page) -> None:
        leases = self._leases
        leases.set_out(page, page.lease.entry.url)
        leases.depart(page)
        leases.departed(page)
        await asyncio.sleep(self._takes_s)
        leases.receive(page)
        leases.settle(page, Outcome.DONE, "2xx")
