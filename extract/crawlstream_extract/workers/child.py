"""A worker: runs a job over the values that come by its socket.

``python -m crawlstream_extract.workers.child PARENT SOCKET``; it ends with its parent, whatever
ends that. Signals of a terminal or a supervisor are its parent's to answer.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys
import time
from typing import Any

from crawlstream.errors import ConfigError
from crawlstream_extract.workers import frames
from crawlstream_extract.workers.job import WorkInside, load_work
from crawlstream_extract.workers.tether import tie_to

EXIT_MEMORY = 86
_FLUSH_S = 0.05
"""Seconds until finished values are reported while others run: the parent counts them."""


def main(parent: int, number: int) -> None:
    """Load the work, then answer one list of values after the other."""
    tie_to(parent)
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)
    # Output printed by the user's code must not mix with the answers.
    os.dup2(2, 1)
    with socket.socket(fileno=number) as connection:
        asked = _read(connection)
        try:
            work = load_work(asked["target"], asked["argument"])
        except ConfigError as error:
            connection.sendall(frames.pack({"refused": str(error)}))
            return
        _limit_memory(asked["memory_mb"])
        connection.sendall(frames.pack({"told": work.told}))
        try:
            while (values := _read(connection)) is not None:
                _answer(connection, work, values)
        except (MemoryError, ConnectionError):
            os._exit(EXIT_MEMORY)


def _answer(connection: socket.socket, work: WorkInside, values: list[bytes]) -> None:
    done: list[bytes] = []
    told_at = time.monotonic()
    for value in values:
        done.append(work.run(value))
        if time.monotonic() - told_at > _FLUSH_S:
            _tell(connection, done)
            told_at = time.monotonic()
    if done:
        _tell(connection, done)


def _tell(connection: socket.socket, done: list[bytes]) -> None:
    connection.sendall(frames.pack(done))
    done.clear()


def _limit_memory(memory_mb: int) -> None:
    """Limit the address space; macOS takes no such limit."""
    if sys.platform == "linux" and memory_mb:
        limit = memory_mb << 20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _read(connection: socket.socket) -> Any:
    """The next message; None at the end."""
    head = _exactly(connection, frames.LENGTH.size)
    body = head and _exactly(connection, frames.LENGTH.unpack(head)[0])
    return frames.unpack(body) if body else None


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    received = bytearray(size)
    view, at = memoryview(received), 0
    while at < size:
        count = connection.recv_into(view[at:])
        if not count:
            return None
        at += count
    return bytes(received)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
