"""A connection to Redis that says of itself that it was closed.

While another task closes a connection, or has lost it, redis-py writes to what is no longer there,
and lets pass what Python and uvloop say of that. To whoever asks it is a Redis that is away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection
from redis.exceptions import ConnectionError as RedisConnectionError


class _Telling(AbstractConnection):
    async def send_packed_command(
        self, command: bytes | str | Iterable[bytes], *args: Any, **options: Any
    ) -> None:
        """Write a command; RedisConnectionError: the connection is closed."""
        try:
            await super().send_packed_command(command, *args, **options)
        except (AttributeError, RuntimeError) as error:
            raise RedisConnectionError(f"the connection was closed: {error}") from error


class _Plain(_Telling, Connection):
    pass


class _Tls(_Telling, SSLConnection):
    pass


CONNECTIONS: Mapping[type[AbstractConnection], type[Connection]] = MappingProxyType(
    {Connection: _Plain, SSLConnection: _Tls}
)
"""Of each class of redis-py, the one that takes its place."""
