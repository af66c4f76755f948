"""Bytes that pages in work may occupy together; others wait in order of arrival."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rest_service.http.envelope import RequestRefused


class ByteBudget:
    """At most ``most`` bytes at a time; one request that wants more gets all."""

    def __init__(self, most: int, *, patience_s: float = 10.0) -> None:
        self._most = most
        self._left = most
        self._patience_s = patience_s
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def left(self) -> int:
        """Bytes that are not in use."""
        return self._left

    @asynccontextmanager
    async def of(self, size: int) -> AsyncIterator[None]:
        """Take bytes for the block; raise RequestRefused (503) if they are not free in time."""
        size = min(size, self._most)
        await self._take(size)
        try:
            yield
        finally:
            self._left += size
            self._serve()

    async def _take(self, size: int) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place = (size, future)
        self._waiting.append(place)
        self._serve()
        try:
            async with asyncio.timeout(self._patience_s):
                await future
        except BaseException as error:
            if future.done() and not future.cancelled():
                self._left += size
            future.cancel()
            self._serve()
            if isinstance(error, TimeoutError):
                raise RequestRefused(
                    503, "Too many large pages at a time: try again.", code="busy"
                ) from None
            raise

    def _serve(self) -> None:
        """Give bytes to those that wait longest, as far as they reach."""
        while self._waiting:
            size, future = self._waiting[0]
            if not future.done():
                if size > self._left:
                    return
                self._left -= size
                future.set_result(None)
            self._waiting.popleft()
