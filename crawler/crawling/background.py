"""The tasks beside Scrapy's own: kept alive, their failures never lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from crawlstream.tasks import end

log = structlog.get_logger()

Work = Coroutine[Any, Any, None]


class Tasks:
    """Runs coroutines until they end, or until the worker does."""

    def __init__(self, on_broken: Callable[[], None]) -> None:
        """``on_broken`` is called when something fails that the worker cannot do without."""
        self._on_broken = on_broken
        self._beside: set[asyncio.Task[None]] = set()
        self._vital: set[asyncio.Task[None]] = set()

    def spawn(self, work: Work) -> None:
        """Run something that ends by itself; a failure is logged."""
        self._start(work, self._beside)

    def keep(self, work: Work) -> asyncio.Task[None]:
        """Run something that the worker cannot do without."""
        return self._start(work, self._vital)

    def _start(self, work: Work, among: set[asyncio.Task[None]]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        among.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        is_vital = task in self._vital
        self._beside.discard(task)
        self._vital.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("stop", outcome="task_failed", vital=is_vital, exc_info=error)
            if is_vital:
                self._on_broken()

    async def finish(self, within_s: float) -> None:
        """Wait for what ends by itself; after ``within_s`` seconds it is cancelled."""
        if self._beside:
            await asyncio.wait(self._beside, timeout=within_s)
        await end(self._beside)

    async def stop(self) -> None:
        """End everything."""
        await end(self._beside | self._vital)
