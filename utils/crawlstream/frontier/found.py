"""The one place that founds a frontier: no call does, for it may be asked of a wrong Redis."""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis

from crawlstream.frontier.scripts import Scripts
from crawlstream.keys import FrontierKeys

LAYOUT = 1
"""What the keys hold; another number where a version changes that."""


async def found(redis: Redis, keys: FrontierKeys) -> int:
    """Let there be a frontier, unless there is one: a process does it at its start, and recovery.

    Answers its layout. RedisUnavailable: no answer; repeating it is safe.
    """
    layout: Any = await Scripts(redis, keys.tag).run("found", LAYOUT)
    return int(layout)
