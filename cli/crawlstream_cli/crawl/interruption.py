"""Ctrl-C, SIGTERM or a closed terminal end a command and what it has begun: a crawl, a cluster."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

import typer

T = TypeVar("T")

INTERRUPTED = 128 + signal.SIGINT
"""Exit code after Ctrl-C, as shells have it; other signals have theirs alike."""
_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AT_ONCE_S = 1.0
"""Seconds within which several signals count as one: `timeout` signals a command and its group."""


def until_signal(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of the work; a signal cancels it, but it may still print before the exit.

    A second signal, later than ``AT_ONCE_S``, cancels that, too. Signals that were ignored before
    (``nohup``) still are.
    """
    return asyncio.run(_until_signal(work))


async def _until_signal(work: Coroutine[Any, Any, T]) -> T:
    task, loop, caught = asyncio.ensure_future(work), asyncio.get_running_loop(), dict[float, int]()

    def end(number: int) -> None:
        if loop.time() - max(caught, default=-AT_ONCE_S) < AT_ONCE_S:
            return
        caught[loop.time()] = number
        if number == signal.SIGHUP:
            _let_go_of_terminal()
        task.cancel()

    for number in _heeded():
        loop.add_signal_handler(number, end, number)
    try:
        return await task
    except asyncio.CancelledError:
        raise typer.Exit(_exit_code(caught)) from None
    except Exception as error:
        if not caught:
            raise
        # A signal has ended it, whatever failed on the way out.
        sys.stderr.write(f"crawlstream: {error}\n")
        raise typer.Exit(_exit_code(caught)) from None


def _exit_code(caught: Mapping[float, int]) -> int:
    """Return the exit code after the first of these signals; without any, that after Ctrl-C."""
    return 128 + caught[min(caught)] if caught else INTERRUPTED


@contextmanager
def ends_as_interrupt() -> Iterator[None]:
    """Raise KeyboardInterrupt, with the number of the signal, at the first signal of the block.

    Further signals are ignored, so that none cuts short what the first one stops. Signals that were
    ignored before still are.
    """

    def interrupt(number: int, _frame: FrameType | None) -> None:
        for each in _ENDS:
            signal.signal(each, signal.SIG_IGN)
        if number == signal.SIGHUP:
            _let_go_of_terminal()
        raise KeyboardInterrupt(number)

    kept = {number: signal.signal(number, interrupt) for number in _heeded()}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def _heeded() -> list[signal.Signals]:
    """Return the signals that were not ignored before."""
    return [number for number in _ENDS if signal.getsignal(number) is not signal.SIG_IGN]


def _let_go_of_terminal() -> None:
    """Redirect output to nowhere: writing to a closed terminal fails before all is stopped."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        if stat.S_ISCHR(os.fstat(stream).st_mode):
            os.dup2(nowhere, stream)
    os.close(nowhere)
