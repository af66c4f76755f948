"""Tasks: how they leave, how they go on until they are cancelled, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Coroutine
from contextlib import asynccontextmanager
from typing import Any

AGAIN_S = 2.0
"""A task that has not ended after this is cancelled once more; last words take less."""

_ROUNDS_TO_LEAVE = 10


async def end(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks until every one has ended; what they raise stays with them.

    Once is not enough: ``asyncio.wait_for`` of Python 3.11, through which redis-py writes, forgets
    a cancellation that comes just when it is done, and a loop would go on for ever.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        ended, left = await asyncio.wait(left, timeout=AGAIN_S)
        for task in ended:
            if not task.cancelled():
                # Seen: asyncio need not complain that nobody asked.
                task.exception()


async def let_leave() -> None:
    """Yield until an already started Redis call is sent, before CPU-bound work begins.

    redis-py checks its connection first, which takes several rounds of the event loop.
    """
    for _ in range(_ROUNDS_TO_LEAVE):
        await asyncio.sleep(0)


@asynccontextmanager
async def beside(*work: Coroutine[Any, Any, None]) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Run helpers for the length of the block; they never end by themselves."""
    helpers = [asyncio.create_task(one) for one in work]
    try:
        yield helpers
    finally:
        await end(helpers)
