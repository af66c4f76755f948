"""Wishes of operators for one process, which reads them with every heartbeat."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from redis.asyncio import Redis

from crawlstream.keys import FrontierKeys
from crawlstream.stats.places import Place, of_any

WISHED_S = 30
"""A wish that no heartbeat has seen by then is forgotten."""

_WISH = """#!lua flags=allow-oom
redis.call('HSET', KEYS[1], ARGV[1], '1')
redis.call('EXPIRE', KEYS[1], ARGV[2])
"""
"""A script, for a full Redis takes these commands from no client."""


class Wish(StrEnum):
    """A wish that a process can fulfil."""

    DRAIN = "drain"
    """Finish the work in progress, and end."""
    TAIL = "tail"
    """Send the latest lines of the log with the heartbeats."""


async def wish(
    redis: Redis, keys: FrontierKeys, process: str, wished: Wish, *, also: Sequence[Place] = ()
) -> None:
    """Send a wish to a process, in every place where it writes heartbeats; RedisError."""

    async def ask(client: Any, keys: FrontierKeys) -> None:
        await client.eval(_WISH, 1, keys.wishes(process), wished, WISHED_S)

    await of_any([(redis, keys), *also], ask)
