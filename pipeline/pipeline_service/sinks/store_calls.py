"""Calls of a store, which block: on a thread, one at a time, and each with an end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar

CALL_S = 30.0
"""A call of a store that takes longer is interrupted."""

T = TypeVar("T")


class Interruptible(Protocol):
    """Store whose call in progress can be made to fail."""

    def interrupt(self) -> None:
        """Have it fail; from another thread."""


class StoreCalls:
    """Calls of one store."""

    def __init__(self, store: Interruptible) -> None:
        self._store = store
        self._turn = threading.Lock()

    async def call(self, call: Callable[[], T]) -> T:
        """Return the answer of a call, or raise its error.

        A call that hangs, or whose caller is cancelled, is interrupted: the thread is soon free.
        """
        working = asyncio.ensure_future(asyncio.to_thread(partial(self._in_turn, call)))
        try:
            await asyncio.wait([working], timeout=CALL_S)
        finally:
            if not working.done():
                self._store.interrupt()
                working.add_done_callback(_seen)
        return await working

    def _in_turn(self, call: Callable[[], T]) -> T:
        with self._turn:
            return call()


def _seen(working: asyncio.Future[Any]) -> None:
    """Retrieve the error of a call whose caller was cancelled and does not need it."""
    if not working.cancelled():
        working.exception()
