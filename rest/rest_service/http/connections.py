"""Connections to REST: bounded in number and patience, so that whoever says nothing holds nothing.

A connection waits (for the head of its first request, or of its next one) or works (until its
answer is complete). One that waits has a deadline, and is the first to go where there are too many:
the eldest of all, or the eldest of a peer that has its share. So new requests are heard however
many connections are silent. Only where all of them work is a new one refused.
"""

from __future__ import annotations

import asyncio
import math
import resource
from functools import partial
from typing import Any, cast

import h11
import orjson
from uvicorn.protocols.http.h11_impl import H11Protocol

from rest_service.http.peers import peer_of

MAX_CONNECTIONS = 2_000
HEAD_S = 10.0
"""From the connection, or from the first byte of a later head, to the end of the head."""
KEEP_ALIVE_S = 30
"""How long a connection may be silent between two requests."""
UNREAD_S = 60.0
"""How long a client may read nothing of its answer."""
_LOOKED_AT, _BYTES_A_LINE = 4_096, 7
"""Of so many bytes or more in chunks, a line end for so few of them is too many."""
_LOOK_EVERY_S = 1.0
_MOST_REFUSED = 100
_OTHER_FILES = 300
"""What else this process has open at most: Kafka, Redis, logs, those that are being refused."""

_BODY = orjson.dumps(
    {
        "status": "FAILURE",
        "data": None,
        "error": {"message": "Too many connections.", "code": "too_many_connections"},
    }
)
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(_BODY), _BODY)
)


def allow_files() -> int:
    """Let this process open as many files as it needs, if it may; how many connections to take."""
    wanted = MAX_CONNECTIONS + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < wanted:
        soft = wanted if hard < 0 else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return MAX_CONNECTIONS if soft < 0 else max(1, min(MAX_CONNECTIONS, soft - _OTHER_FILES))


class Connections:
    """All that are open: at most ``most``, and of one peer ``each``."""

    def __init__(self, *, most: int, each: int) -> None:
        self._most = most
        self._each = each
        self._open: dict[str, set[Connection]] = {}
        self._count = 0
        # In the order in which they began to wait.
        self._waiting: dict[Connection, None] = {}
        self._waiting_of: dict[str, dict[Connection, None]] = {}
        self._refused: dict[Connection, asyncio.TimerHandle] = {}

    @property
    def protocol(self) -> type[asyncio.Protocol]:
        """What makes a connection, as uvicorn wants it."""
        return cast("type[asyncio.Protocol]", partial(Connection, self))

    def admit(self, one: Connection) -> bool:
        """Count a new connection; False: all others of its peer, or of all peers, work."""
        own = self._open.get(one.peer, ())
        if len(own) >= self._each and not self._give_up(self._waiting_of.get(one.peer, {})):
            return False
        if self._count >= self._most and not self._give_up(self._waiting):
            return False
        self._open.setdefault(one.peer, set()).add(one)
        self._count += 1
        return True

    def refuse(self, one: Connection) -> None:
        """Let it read for a moment why it is refused, unless too many do."""
        if len(self._refused) >= _MOST_REFUSED:
            eldest = next(iter(self._refused))
            eldest.abort()
        self._refused[one] = one.loop.call_later(_LOOK_EVERY_S, one.abort)

    def forget(self, one: Connection) -> None:
        """It is no longer there; nothing happens if it never was."""
        self.works(one)
        if timer := self._refused.pop(one, None):
            timer.cancel()
        own = self._open.get(one.peer, set())
        if one in own:
            own.remove(one)
            self._count -= 1
            if not own:
                del self._open[one.peer]

    def waits(self, one: Connection) -> None:
        """It waits, from now on."""
        self.works(one)
        self._waiting[one] = None
        self._waiting_of.setdefault(one.peer, {})[one] = None

    def works(self, one: Connection) -> None:
        """It does not wait."""
        if self._waiting.pop(one, self) is self:
            return
        own = self._waiting_of[one.peer]
        del own[one]
        if not own:
            del self._waiting_of[one.peer]

    async def watch(self) -> None:
        """Give up connections at their deadlines, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            now = asyncio.get_running_loop().time()
            overdue = [one for own in self._open.values() for one in own if one.is_over(now)]
            for one in overdue:
                one.abort()

    def _give_up(self, waiting: dict[Connection, None]) -> bool:
        for eldest in waiting:
            eldest.abort()
            return True
        return False


class Connection(H11Protocol):
    """One connection."""

    def __init__(self, connections: Connections, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.peer = "unknown"
        self._connections = connections
        self._due = math.inf
        self._is_refused = False
        self._has_begun = True
        """True if the head that is waited for has begun."""
        self._unsent = 0
        self._read_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take it, or say that there are too many."""
        super().connection_made(cast(asyncio.Transport, transport))
        self.peer = peer_of(self.client[0]) if self.client else self.peer
        if self._connections.admit(self):
            self._wait(HEAD_S)
            return
        self._is_refused = True
        self.transport.write(_FULL)
        self.transport.write_eof()
        # Closed at once, what it still sends would be answered by a reset, which overtakes this.
        self._connections.refuse(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._connections.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """A head that has begun must end in time, however its bytes drip."""
        if not self._has_begun:
            self._has_begun = True
            self._due = self.loop.time() + HEAD_S
        if self._is_refused:
            return
        if self._is_ground(data):
            self.abort()
            return
        super().data_received(data)
        if self._is_working:
            self._due = math.inf
            self._connections.works(self)

    def _is_ground(self, data: bytes) -> bool:
        """Whether a body comes in chunks of a few bytes: each costs as much as one of thousands."""
        if len(data) < _LOOKED_AT or data.count(b"\r\n") * _BYTES_A_LINE < len(data):
            return False
        if self.conn.their_state is h11.SEND_BODY:
            return b"transfer-encoding" in dict(self.headers)
        return b"chunked" in data[:_LOOKED_AT].lower()

    def on_response_complete(self) -> None:
        """Wait for the next request, unless that is here already."""
        super().on_response_complete()
        if not self._is_working:
            self._wait(KEEP_ALIVE_S)
            self._has_begun = False

    def is_over(self, now: float) -> bool:
        """Return whether it has passed a deadline: its head is late, or nobody reads its answer."""
        unsent = self.transport.get_write_buffer_size()
        if unsent != self._unsent:
            self._unsent, self._read_at = unsent, now
        return now > (self._read_at + UNREAD_S if unsent else self._due)

    def abort(self) -> None:
        """Close it at once."""
        self._connections.forget(self)
        self.transport.abort()

    @property
    def _is_working(self) -> bool:
        # None before the first request, whatever uvicorn's types say.
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete

    def _wait(self, seconds: float) -> None:
        self._due = self.loop.time() + seconds
        self._connections.waits(self)
