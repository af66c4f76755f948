"""Who ends the command ends what it had begun: Ctrl-C, SIGTERM, and a terminal that is closed."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

import typer

T = TypeVar("T")

INTERRUPTED = 128 + signal.SIGINT
"""Exit code after Ctrl-C, as shells have it; other signals have theirs alike."""
_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def until_signal(work: Coroutine[Any, Any, T]) -> T:
    """What the work comes to; cancelled by a signal, it may say last words before the exit.

    A second signal cancels these too. What was ignored before (``nohup``) still is.
    """
    return asyncio.run(_until_signal(work))


async def _until_signal(work: Coroutine[Any, Any, T]) -> T:
    task, loop, caught = asyncio.ensure_future(work), asyncio.get_running_loop(), list[int]()

    def end(number: int) -> None:
        caught.append(number)
        if number == signal.SIGHUP:
            _let_go_of_terminal()
        task.cancel()

    for number in _ENDS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, end, number)
    try:
        return await task
    except asyncio.CancelledError:
        raise typer.Exit(128 + caught[0] if caught else INTERRUPTED) from None
    except Exception as error:
        if not caught:
            raise
        # A signal has ended it, whatever failed on the way out.
        sys.stderr.write(f"crawlstream: {error}\n")
        raise typer.Exit(128 + caught[0]) from None


def _let_go_of_terminal() -> None:
    """Nobody reads there any more, and a write would fail before everything is stopped."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        if stat.S_ISCHR(os.fstat(stream).st_mode):
            os.dup2(nowhere, stream)
    os.close(nowhere)
