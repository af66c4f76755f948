"""Bytes that pages in work may occupy together; others wait in order of arrival."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from rest_service.http.envelope import RequestRefused


@dataclass(slots=True, eq=False)
class _Wish:
    client: str
    size: int
    granted: asyncio.Future[None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class ByteBudget:
    """At most ``most`` bytes at a time, half of them for one client.

    A request that wants more than half gets half: one at a time of its client.
    """

    def __init__(self, most: int, *, patience_s: float = 10.0) -> None:
        self._each = most // 2
        self._left = most
        self._patience_s = patience_s
        self._of_client: Counter[str] = Counter()
        self._waiting: list[_Wish] = []

    @property
    def left(self) -> int:
        """Bytes that are not in use."""
        return self._left

    @asynccontextmanager
    async def of(self, client: str, size: int) -> AsyncIterator[None]:
        """Take bytes for the block; raise RequestRefused (503) if they are not free in time."""
        wish = _Wish(client, min(size, self._each))
        await self._take(wish)
        try:
            yield
        finally:
            self._give_back(wish)

    async def _take(self, wish: _Wish) -> None:
        self._waiting.append(wish)
        self._serve()
        try:
            async with asyncio.timeout(self._patience_s):
                await wish.granted
        except BaseException as error:
            if wish in self._waiting:
                self._waiting.remove(wish)
                self._serve()
            else:
                self._give_back(wish)
            if isinstance(error, TimeoutError):
                raise RequestRefused(
                    503, "Too many large pages at a time: try again.", code="busy"
                ) from None
            raise

    def _give_back(self, wish: _Wish) -> None:
        self._left += wish.size
        self._of_client[wish.client] -= wish.size
        if not self._of_client[wish.client]:
            del self._of_client[wish.client]
        self._serve()

    def _serve(self) -> None:
        """Give bytes to those that wait longest, as far as they reach; a full client waits."""
        for wish in tuple(self._waiting):
            if self._of_client[wish.client] + wish.size > self._each:
                continue
            if wish.size > self._left:
                return
            self._waiting.remove(wish)
            self._left -= wish.size
            self._of_client[wish.client] += wish.size
            if not wish.granted.done():
                wish.granted.set_result(None)
