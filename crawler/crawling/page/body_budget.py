"""A memory budget for all bodies in this process, whatever servers send.

Large bodies count against the budget from the moment they exceed ``LARGE`` until the page ends, at
their current size: received so far, complete, decompressed. While the budget is exceeded, only the
oldest bodies continue; the others wait with their connections unread, or still compressed. The
oldest always finish, so every body has its turn. Small bodies never wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice

from crawling.page.page import Page

LARGE = 128 * 1024
"""Bytes up to which a body is not weighed: most are far smaller."""
_SHARED = 16 * 1024 * 1024
"""Bytes of all large bodies together, or of the largest that a crawler accepts."""
_OLDEST = 2
"""Bodies that continue although the budget is exceeded."""
_STEP = 64 * 1024
"""Bytes that a connection delivers at a time."""


class BodyBudget:
    """The large bodies of this process, oldest first. Not thread-safe."""

    def __init__(self, largest: int = 0) -> None:
        """``largest``: bytes of the largest body that comes in."""
        self._limit = max(_SHARED, largest)
        self._sizes: dict[Page, int] = {}
        self._waiting: dict[Page, Callable[[], None]] = {}
        self.total = 0
        """Bytes."""

    def weigh(self, page: Page, size: int) -> None:
        """Note how many bytes a page's body has now."""
        known = self._sizes.get(page)
        if known is None and size <= LARGE:
            return
        self._sizes[page] = size
        self.total += size - (known or 0)

    def may_grow(self, page: Page) -> bool:
        """Return whether the body may take more: there is room, or it is one of the oldest."""
        return self.total <= self._limit or page in islice(self._sizes, _OLDEST)

    def wait(self, page: Page, go_on: Callable[[], None]) -> None:
        """Call ``go_on`` once the body may grow again, or has gone."""
        self._sizes.setdefault(page, 0)
        self._waiting[page] = go_on

    async def turn(self, page: Page) -> None:
        """Wait until a body may be decompressed."""
        while page.is_open and not self.may_grow(page):
            turn = asyncio.Event()
            self.wait(page, turn.set)
            await turn.wait()

    def drop(self, page: Page) -> None:
        """Forget the body of a page."""
        size = self._sizes.pop(page, None)
        if size is None:
            return
        self.total -= size
        if go_on := self._waiting.pop(page, None):
            go_on()
        self._look()

    def _look(self) -> None:
        """Let bodies continue while there is room, the oldest first."""
        room = self._limit - self.total
        for place, page in enumerate(list(self._sizes)):
            if page in self._waiting and (room >= 0 or place < _OLDEST):
                room -= _STEP
                self._waiting.pop(page)()
