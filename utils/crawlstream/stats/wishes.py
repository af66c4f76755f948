"""What people ask of one process: it looks for it with every heartbeat."""

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
    """What a process may be asked for."""

    DRAIN = "drain"
    """To finish what it has begun, and end."""
    TAIL = "tail"
    """To tell the latest lines of its log with its heartbeats."""


async def wish(
    redis: Redis, keys: FrontierKeys, process: str, wished: Wish, *, also: Sequence[Place] = ()
) -> None:
    """Ask a process, by its name, wherever it tells of itself; RedisError."""

    async def ask(client: Any, keys: FrontierKeys) -> None:
        await client.eval(_WISH, 1, keys.wishes(process), wished, WISHED_S)

    await of_any([(redis, keys), *also], ask)
