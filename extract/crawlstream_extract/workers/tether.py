"""A child process that ends with its parent, for any cause."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def die_with_parent(how: signal.Signals) -> Callable[[], None]:
    """Return a ``preexec_fn``: the kernel sends ``how`` to the child when its parent thread ends.

    Start the child from a thread that lives as long as the child should: the main thread. Linux
    only; elsewhere the returned function does nothing.
    """
    if sys.platform != "linux":
        return lambda: None
    libc = ctypes.CDLL(None, use_errno=True)
    parent = os.getpid()

    def tie() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, how, 0, 0, 0)
        # The parent may have died before prctl was called.
        if os.getppid() != parent:
            os._exit(1)

    return tie


def tie_to(parent: int, how: signal.Signals = signal.SIGKILL) -> None:
    """Tie the calling child to its parent; for parents with threads, which must not fork.

    ``parent`` is the process that started the child; if it has already ended, exit at once.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, how, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
