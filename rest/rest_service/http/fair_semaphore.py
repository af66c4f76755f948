"""Turns at limited work: no client takes all of them or waits forever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from rest_service.http.envelope import RequestRefused

_WAITING = 20
"""Requests of one client that may wait at a time."""


@dataclass(slots=True)
class _Own:
    turns: asyncio.Semaphore
    count: int = 0
    """Requests that have a turn or wait for one."""


class FairSemaphore:
    """At most ``most`` turns at a time, ``each`` per client; others wait in order of arrival."""

    def __init__(self, *, most: int, each: int, patience_s: float | None = None) -> None:
        self._all = asyncio.Semaphore(most)
        self._each = each
        self._patience_s = patience_s
        self._own: dict[str, _Own] = {}

    def is_full(self, client: str) -> bool:
        """Return whether a client would have to wait."""
        own = self._own.get(client)
        return self._all.locked() or (own is not None and own.turns.locked())

    @asynccontextmanager
    async def of(self, client: str) -> AsyncIterator[None]:
        """Take a turn for the block; raise RequestRefused (503) if none comes in time."""
        own = self._own.setdefault(client, _Own(asyncio.Semaphore(self._each)))
        if own.count >= self._each + _WAITING:
            raise _busy()
        own.count += 1
        try:
            await self._wait(own)
            try:
                yield
            finally:
                self._all.release()
                own.turns.release()
        finally:
            own.count -= 1
            if not own.count:
                self._own.pop(client, None)

    async def _wait(self, own: _Own) -> None:
        try:
            async with asyncio.timeout(self._patience_s):
                await own.turns.acquire()
                try:
                    await self._all.acquire()
                except BaseException:
                    own.turns.release()
                    raise
        except TimeoutError:
            raise _busy() from None


def _busy() -> RequestRefused:
    return RequestRefused(503, "Too many concurrent reads: try again.", code="busy")
