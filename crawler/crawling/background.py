"""Background tasks of a worker: referenced while they run, with all failures logged."""

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
        """``on_broken`` is called when a task of :meth:`keep` fails."""
        self._on_broken = on_broken
        self._beside: set[asyncio.Task[None]] = set()
        self._vital: set[asyncio.Task[None]] = set()

    def spawn(self, work: Work) -> None:
        """Run a task that ends by itself; log a failure."""
        self._start(work, self._beside)

    def keep(self, work: Work) -> asyncio.Task[None]:
        """Run a task that the worker needs; a failure ends the worker."""
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
        """Wait for the tasks of :meth:`spawn`; cancel them after ``within_s`` seconds."""
        if self._beside:
            await asyncio.wait(self._beside, timeout=within_s)
        await end(self._beside)

    async def stop(self) -> None:
        """Cancel all tasks."""
        await end(self._beside | self._vital)
