"""Which ports of 127.0.0.1 are free."""

from __future__ import annotations

import random
import socket

_RANGE = range(20_000, 32_000)
"""Below the range from which Linux takes the ports of outgoing connections."""


def is_free(port: int) -> bool:
    """Whether a server could listen on the port now, on 127.0.0.1 and on all addresses."""
    return all(_can_bind(address, port) for address in ("127.0.0.1", "0.0.0.0"))  # noqa: S104


def free_block(length: int) -> int:
    """The first of ``length`` consecutive free ports, chosen at random."""
    for first in random.sample(_RANGE, 1000):
        if all(is_free(first + i) for i in range(length)):
            return first
    raise OSError(f"no {length} consecutive free ports between {_RANGE.start} and {_RANGE.stop}")


def _can_bind(address: str, port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Connections of an earlier server that linger in TIME_WAIT do not keep a new one out.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
        return True
