"""When data really arrived: the kernel's stamp, which no busy process delays."""

from __future__ import annotations

import socket
import struct
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_SO_TIMESTAMPNS = 35
"""Linux: the kernel notes when data came in, as seconds and nanoseconds since the epoch."""

_STAMP = struct.Struct("qq")
_ROOM_FOR_NOTES = 128


class StampedSocket(socket.socket):
    """A connection that remembers when the last data that was read from it had arrived.

    Elsewhere than on Linux that is the moment of reading.
    """

    arrived_ms: tuple[float, float] = (0.0, 0.0)
    """Milliseconds by the monotonic clock, and since the epoch."""

    @classmethod
    def over(cls, connection: socket.socket) -> StampedSocket:
        """Take a connection over; the one it was is closed."""
        stamped = cls(fileno=connection.detach())
        stamped.settimeout(0)
        if sys.platform == "linux":
            stamped.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        return stamped

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """Read as a socket does, and note the time."""
        data, notes, _flags, _peer = self.recvmsg(size, _ROOM_FOR_NOTES, flags)
        self._note_arrival(notes)
        return data

    def recv_into(self, buffer: WriteableBuffer, size: int = 0, flags: int = 0, /) -> int:
        """Read as a socket does, and note the time: TLS reads so."""
        room = memoryview(buffer)[: size or None]
        count, notes, _flags, _peer = self.recvmsg_into([room], _ROOM_FOR_NOTES, flags)
        self._note_arrival(notes)
        return count

    def _note_arrival(self, notes: list[tuple[int, int, bytes]]) -> None:
        read_ns = arrived_ns = time.time_ns()
        for level, kind, stamp in notes:
            if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
                seconds, nanoseconds = _STAMP.unpack(stamp)
                arrived_ns = seconds * 1_000_000_000 + nanoseconds
        ago_ns = read_ns - arrived_ns
        self.arrived_ms = (time.monotonic_ns() - ago_ns) / 1e6, arrived_ns / 1e6
