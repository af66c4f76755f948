"""A step, repeated until the monitor stops; one that fails does not take others down."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import structlog

from crawlstream.boot.liveness import Liveness
from crawlstream.retry import Backoff

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
"""After a step that failed."""

log = structlog.get_logger()

Step = Callable[[], Awaitable[float]]
"""Piece of bounded work; returns the seconds to wait before the next one."""


class PeriodicTask:
    """Repeats a step; a service that does not answer is waited for, an unknown error retried."""

    def __init__(self, liveness: Liveness, step: Step, *, of: str = "") -> None:
        """``of``: which of several things that are alike it is about."""
        self.liveness = liveness
        self.name = f"{liveness.name} ({of})" if of else liveness.name
        self.failure = ""
        """Error of the last step, "" if it did not fail."""
        self._step = step

    async def run(self, stop: asyncio.Event) -> None:
        """Work until a stop is requested; the current step is finished first."""
        backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        while not stop.is_set():
            wait_s = await self._try()
            if self.failure:
                wait_s = next(backoff)
            else:
                backoff.reset()
            self.liveness.beat(ahead_s=wait_s)
            if wait_s:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await stop.wait()

    async def _try(self) -> float:
        try:
            wait_s = await self.liveness.retry(self._step)
        except Exception as error:
            log.exception(self.liveness.name, outcome="failed")
            self.failure = repr(error)
            return 0.0
        self.failure = ""
        return wait_s
