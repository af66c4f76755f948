"""Sleep until there is work: the frontier wakes a worker under its name, without polling.

A partition among several publishes on a channel of its slot (sharded pub/sub): only the node that
has this slot receives it.
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
"""Pause before subscribing again after Redis became unavailable."""
LISTEN_S = 30.0
"""Time for which one call waits for a message of a slot."""


class Sleeper:
    """Wakes its owner when the frontier has work for it.

    A wake-up that comes between two sleeps is kept for the next sleep. When a broken subscription
    is restored, the owner is woken: a message may have been missed.
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
        """Stop listening."""
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
        # In a cluster, commands, not subscriptions, show a client which node has the slot now.
        await self._redis.exists(self._channel)
        await pubsub.ssubscribe(self._channel)
        next_message = getattr(pubsub, "get_sharded_message", pubsub.get_message)
        while True:
            if await next_message(timeout=LISTEN_S):
                self._woken.set()
