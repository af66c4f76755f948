"""Runs one page in a round of the event loop, so that sockets and heartbeats are served between."""

from __future__ import annotations

import asyncio
from collections import deque


class LoopTurns:
    """Hands out one turn in each round of the loop, first come, first served."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_taken = False

    async def take(self) -> None:
        """Return when it is the caller's turn."""
        if not self._is_taken:
            self._take()
            return
        turn: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(turn)
        await turn

    def _take(self) -> None:
        self._is_taken = True
        self._loop.call_soon(self._next_round)

    def _next_round(self) -> None:
        self._is_taken = False
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                self._take()
                return
