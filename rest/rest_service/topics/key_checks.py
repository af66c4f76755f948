"""Checks of keys in progress at this process, and announcements that wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Sequence
from typing import Any

from rest_service.http.envelope import RequestRefused

WAITING_BYTES = 16 << 20
"""Bytes of the URLs of all announcements that wait."""
_URL_BYTES = 64
"""Bytes that a URL takes besides its characters."""
_WAIT_S = 10.0
"""Seconds that a call waits for the check of its key."""


class KeyChecks:
    """Equal checks share one, and announcements go on when their caller has been answered."""

    def __init__(self, *, patience_s: float = _WAIT_S) -> None:
        self._patience_s = patience_s
        self._checks: dict[Hashable, asyncio.Task[bool]] = {}
        self._waiting: dict[asyncio.Task[bool], int] = {}

    async def check(self, key: Hashable, proving: Callable[[], Coroutine[Any, Any, bool]]) -> bool:
        """Return the outcome of a check, begun now unless an equal one is in progress."""
        if (task := self._checks.get(key)) is None:
            task = self._checks[key] = asyncio.create_task(proving(), name="indexnow check")
            task.add_done_callback(lambda _: self._checks.pop(key, None))
            task.add_done_callback(_retrieve)
        return await asyncio.shield(task)

    async def answer(self, handling: Coroutine[Any, Any, bool], urls: Sequence[str]) -> bool | None:
        """Return the outcome of an announcement; None: it goes on, without its caller.

        RequestRefused (429) if too many wait.
        """
        size = sum(len(url) + _URL_BYTES for url in urls)
        if sum(self._waiting.values()) + size > WAITING_BYTES:
            handling.close()
            raise RequestRefused(
                429,
                "Too many announcements wait for the check of their key: try again.",
                code="too_many_waiting",
                retry_after_s=_WAIT_S,
            )
        task = asyncio.create_task(handling, name="indexnow")
        self._waiting[task] = size
        task.add_done_callback(lambda done: self._waiting.pop(done, None))
        task.add_done_callback(_retrieve)
        await asyncio.wait([task], timeout=self._patience_s)
        return task.result() if task.done() else None

    async def close(self) -> None:
        """End all."""
        tasks = [*self._checks.values(), *self._waiting]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _retrieve(done: asyncio.Task[bool]) -> None:
    """Retrieve the error, or asyncio logs that it was never retrieved."""
    if not done.cancelled():
        done.exception()
