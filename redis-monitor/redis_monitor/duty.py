"""A duty: one step, repeated until the monitor stops; a failing one does not take others down."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import structlog

from crawlstream.stats.pulse import FIRST_PAUSE_S, LONGEST_PAUSE_S, Pulse

log = structlog.get_logger()

Step = Callable[[], Awaitable[float]]
"""One piece of bounded work; answers how many seconds to wait before the next one."""


class Duty:
    """Repeats a step; a service that does not answer is waited for, an unknown error retried."""

    def __init__(self, pulse: Pulse, step: Step) -> None:
        self.pulse = pulse
        self.failure = ""
        """What the last step failed with, "" if it did not."""
        self._step = step

    async def run(self, stop: asyncio.Event) -> None:
        """Work until told to stop; the step at hand is finished first."""
        pause_s = FIRST_PAUSE_S
        while not stop.is_set():
            wait_s = await self._try()
            if self.failure:
                wait_s, pause_s = pause_s, min(2 * pause_s, LONGEST_PAUSE_S)
            else:
                pause_s = FIRST_PAUSE_S
            self.pulse.beat(ahead_s=wait_s)
            if wait_s:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await stop.wait()

    async def _try(self) -> float:
        try:
            wait_s = await self.pulse.patiently(self._step)
        except Exception as error:
            log.exception(self.pulse.name, outcome="failed")
            self.failure = repr(error)
            return 0.0
        self.failure = ""
        return wait_s
