"""Sleep until there is work: the frontier wakes a worker by name, nobody polls."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from crawlstream.keys import FrontierKeys
from crawlstream.tasks import end

RECONNECT_S = 1.0
"""Pause before the subscription is made anew after Redis went away."""


class Sleeper:
    """Wakes its owner when the frontier says that there is work for it.

    A wake-up that comes while nobody sleeps is kept for the next sleep. When the subscription was
    broken, its owner is woken once it stands again: something may have been missed.
    """

    def __init__(self, redis: Redis, keys: FrontierKeys, name: str) -> None:
        self._redis: Any = redis
        self._channel = keys.wake_channel(name)
        self._woken = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen from now on."""
        self._listening = asyncio.create_task(self._listen(), name=f"wake:{self._channel}")

    async def stop(self) -> None:
        """Listen no more."""
        if self._listening:
            await end([self._listening])

    def wake(self) -> None:
        """Wake the owner from within its process."""
        self._woken.set()

    async def sleep(self, timeout_s: float | None) -> None:
        """Return when woken, or after the timeout (None: only when woken)."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._woken.wait()
        self._woken.clear()

    async def _listen(self) -> None:
        while True:
            with contextlib.suppress(RedisError, OSError):
                async with self._redis.pubsub(ignore_subscribe_messages=False) as pubsub:
                    await pubsub.subscribe(self._channel)
                    async for _message in pubsub.listen():
                        self._woken.set()
            await asyncio.sleep(RECONNECT_S)
