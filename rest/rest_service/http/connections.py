"""Connections to REST: limited in number and time, so that idle clients take no resources.

A connection waits (for the head of its first or next request) or works (until its answer is
complete). A waiting connection has a deadline. Where there are too many connections, the one that
has waited longest is closed: of all peers, or of a peer that has reached its limit. So idle
connections never block new requests. A new connection is only refused if all others are working.
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
"""Seconds from the connection, or the first byte of a later head, to the end of the head."""
KEEP_ALIVE_S = 30
"""Seconds that a connection may be silent between two requests."""
UNREAD_S = 60.0
"""Seconds that a client may read nothing of its answer."""
_LOOKED_AT, _BYTES_A_LINE = 4_096, 7
"""Bytes from which chunked data is checked; a line end per fewer bytes than this is too many."""
_LOOK_EVERY_S = 1.0
_MOST_REFUSED = 100
_OTHER_FILES = 300
"""Other files this process opens at most: Kafka, Redis, logs, connections being refused."""

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
    """Raise the limit of open files as far as allowed; return how many connections to accept."""
    wanted = MAX_CONNECTIONS + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < wanted:
        soft = wanted if hard < 0 else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return MAX_CONNECTIONS if soft < 0 else max(1, min(MAX_CONNECTIONS, soft - _OTHER_FILES))


class Connections:
    """All open connections: at most ``most``, and ``each`` per peer."""

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
        """Return the factory of connections for uvicorn."""
        return cast("type[asyncio.Protocol]", partial(Connection, self))

    def admit(self, one: Connection) -> bool:
        """Count a new connection; return False if all others, or all of its peer, are working."""
        own = self._open.get(one.peer, ())
        if len(own) >= self._each and not self._give_up(self._waiting_of.get(one.peer, {})):
            return False
        if self._count >= self._most and not self._give_up(self._waiting):
            return False
        self._open.setdefault(one.peer, set()).add(one)
        self._count += 1
        return True

    def refuse(self, one: Connection) -> None:
        """Let a client read its refusal for a moment, unless too many do."""
        if len(self._refused) >= _MOST_REFUSED:
            oldest = next(iter(self._refused))
            oldest.abort()
        self._refused[one] = one.loop.call_later(_LOOK_EVERY_S, one.abort)

    def forget(self, one: Connection) -> None:
        """Remove a connection; ignore an unknown one."""
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
        """Mark a connection as waiting from now on."""
        self.works(one)
        self._waiting[one] = None
        self._waiting_of.setdefault(one.peer, {})[one] = None

    def works(self, one: Connection) -> None:
        """Mark a connection as not waiting."""
        if self._waiting.pop(one, self) is self:
            return
        own = self._waiting_of[one.peer]
        del own[one]
        if not own:
            del self._waiting_of[one.peer]

    async def watch(self) -> None:
        """Close connections at their deadlines, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            now = asyncio.get_running_loop().time()
            overdue = [one for own in self._open.values() for one in own if one.is_over(now)]
            for one in overdue:
                one.abort()

    def _give_up(self, waiting: dict[Connection, None]) -> bool:
        for oldest in waiting:
            oldest.abort()
            return True
        return False


class Connection(H11Protocol):
    """A connection with deadlines."""

    def __init__(self, connections: Connections, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.peer = "unknown"
        self._connections = connections
        self._due = math.inf
        self._is_refused = False
        self._has_begun = True
        """True if the next head has begun."""
        self._unsent = 0
        self._read_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection, or answer that there are too many."""
        super().connection_made(cast(asyncio.Transport, transport))
        self.peer = peer_of(self.client[0]) if self.client else self.peer
        if self._connections.admit(self):
            self._wait(HEAD_S)
            return
        self._is_refused = True
        self.transport.write(_FULL)
        self.transport.write_eof()
        # Closed at once, its further bytes would be answered by a reset, which overtakes it.
        self._connections.refuse(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection."""
        self._connections.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Process data; a head that has begun must end in time, however slowly its bytes arrive."""
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
        """Return whether a body has tiny chunks: each costs as much as a large one."""
        if len(data) < _LOOKED_AT or data.count(b"\r\n") * _BYTES_A_LINE < len(data):
            return False
        if self.conn.their_state is h11.SEND_BODY:
            return b"transfer-encoding" in dict(self.headers)
        return b"chunked" in data[:_LOOKED_AT].lower()

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it has already arrived."""
        super().on_response_complete()
        if not self._is_working:
            self._wait(KEEP_ALIVE_S)
            self._has_begun = False

    def is_over(self, now: float) -> bool:
        """Return whether a deadline has passed: of the head, or of reading the answer."""
        unsent = self.transport.get_write_buffer_size()
        if unsent != self._unsent:
            self._unsent, self._read_at = unsent, now
        return now > (self._read_at + UNREAD_S if unsent else self._due)

    def abort(self) -> None:
        """Close the connection at once."""
        self._connections.forget(self)
        self.transport.abort()

    @property
    def _is_working(self) -> bool:
        # None before the first request, although uvicorn's types exclude it.
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete

    def _wait(self, seconds: float) -> None:
        self._due = self.loop.time() + seconds
        self._connections.waits(self)
