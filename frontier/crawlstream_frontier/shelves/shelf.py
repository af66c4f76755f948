"""A separate server for chunks; it needs only SET, GET and DEL."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

from redis.asyncio import Redis
from redis.exceptions import RedisError

from crawlstream.errors import ShelfUnavailable

T = TypeVar("T")


class Shelf:
    """Stores values under keys. Every method raises ShelfUnavailable unless it has succeeded."""

    def __init__(self, redis: Redis, address: str) -> None:
        """``address`` identifies the server without secrets."""
        self._redis: Any = redis
        self.address = address

    async def put(self, key: str, value: bytes) -> None:
        """Store a value."""
        await self._asked(self._redis.set(key, value))

    async def get(self, key: str) -> bytes | None:
        """Return the value; None if there is none."""
        return await self._asked(self._redis.get(key))

    async def delete(self, keys: Sequence[str]) -> int:
        """Delete values; return how many existed."""
        return int(await self._asked(self._redis.delete(*keys))) if keys else 0

    async def _asked(self, answer: Awaitable[T]) -> T:
        try:
            return await answer
        except (RedisError, OSError) as error:
            raise ShelfUnavailable(
                f"the shelf at {self.address} does not answer: {error}"
            ) from error
