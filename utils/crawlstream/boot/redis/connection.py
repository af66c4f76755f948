"""A connection to Redis that reports that it was closed, or that its data is being moved.

If another task closes or loses a connection, redis-py goes on to write to it, and does not catch
the errors that Python and uvloop raise then. Here they are raised as those of an unavailable Redis.

While a slot of a Redis Cluster is moved key by key, its node redirects requests for missing keys to
the other node (ASK). redis-py would follow, but half of a partition cannot be used: it pauses until
the move is finished or cancelled.
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
            # It is an AskError, too, in redis-py; it means that the move is over.
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
"""Connection class to use in place of each one of redis-py."""
