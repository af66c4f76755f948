"""Sleep until there is work: the frontier wakes a worker by name, nobody polls.

A partition among several says it on a channel of its slot (sharded pub/sub): only the node that has
this slot hears of it.
"""

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
LISTEN_S = 30.0
"""How long one call waits for a message of a slot."""


class Sleeper:
    """Wakes its owner when the frontier says that there is work for it.

    A wake-up that comes while nobody sleeps is kept for the next sleep. When the subscription was
    broken, its owner is woken once it stands again: something may have been missed.
    """

    def __init__(self, redis: Redis, keys: FrontierKeys, name: str) -> None:
        self._redis: Any = redis
        self._channel = keys.wake_channel(name)
        self._is_sharded = keys.is_sharded
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
                    await (self._hear_slot(pubsub) if self._is_sharded else self._hear(pubsub))
            await asyncio.sleep(RECONNECT_S)

    async def _hear(self, pubsub: Any) -> None:
        await pubsub.subscribe(self._channel)
        async for _message in pubsub.listen():
            self._woken.set()

    async def _hear_slot(self, pubsub: Any) -> None:
        # Commands, not subscriptions, tell a client of a cluster which node has the slot now.
        await self._redis.exists(self._channel)
        await pubsub.ssubscribe(self._channel)
        next_message = getattr(pubsub, "get_sharded_message", pubsub.get_message)
        while True:
            if await next_message(timeout=LISTEN_S):
                self._woken.set()
