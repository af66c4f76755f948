"""Signals that end a process."""

from __future__ import annotations

import asyncio
import signal


class Stop(asyncio.Event):
    """Set by SIGTERM or SIGINT: finish the current work, release the rest, exit 0.

    Make it on the main thread, inside the running loop.
    """

    def __init__(self) -> None:
        super().__init__()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.set)
