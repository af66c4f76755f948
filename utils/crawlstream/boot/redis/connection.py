"""A connection to Redis that says of itself that it was closed, or that its data is on the move.

While another task closes a connection, or has lost it, redis-py writes to what is no longer there,
and lets pass what Python and uvloop say of that. To whoever asks it is a Redis that is away.

While a slot of a Redis Cluster is moved key by key, its node sends whoever asks for a missing key
to the other one (ASK). redis-py would go there, but half of a partition is no partition: it rests
until the move is over, or cancelled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection
from redis.exceptions import AskError, MovedError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError


class SlotMovedError(ResponseError):
    """The key is missing on its node, whose slot is being moved to another one key by key."""


class _Telling(AbstractConnection):
    async def send_packed_command(
        self, command: bytes | str | Iterable[bytes], *args: Any, **options: Any
    ) -> None:
        """Write a command; RedisConnectionError: the connection is closed."""
        try:
            await super().send_packed_command(command, *args, **options)
        except (AttributeError, RuntimeError) as error:
            raise RedisConnectionError(f"the connection was closed: {error}") from error

    async def read_response(self, *args: Any, **options: Any) -> Any:
        """The next answer; SlotMovedError: it is an ASK."""
        try:
            return await super().read_response(*args, **options)
        except MovedError:
            # Of redis-py's errors this is an AskError, too: the move is over.
            raise
        except AskError as error:
            raise SlotMovedError(
                f"slot {error.slot_id} is being moved key by key to {error.host}:{error.port}"
            ) from error


class _Plain(_Telling, Connection):
    pass


class _Tls(_Telling, SSLConnection):
    pass


CONNECTIONS: Mapping[type[AbstractConnection], type[Connection]] = MappingProxyType(
    {Connection: _Plain, SSLConnection: _Tls}
)
"""Of each class of redis-py, the one that takes its place."""
