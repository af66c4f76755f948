"""Versions side by side on one Redis: only those that lay out its keys alike.

Processes of two versions share a frontier while a cluster is being upgraded. Most versions can;
one that changes what a key holds raises LAYOUT (``crawlstream.frontier.found``), and is refused
until the others are gone.
"""

from __future__ import annotations

from redis.asyncio import Redis

from crawlstream.errors import ConfigError
from crawlstream.frontier.found import LAYOUT, found
from crawlstream.keys import FrontierKeys


async def agree_on_layout(redis: Redis, keys: FrontierKeys) -> None:
    """Make sure that what Redis holds is laid out as this version has it.

    ConfigError: it is not. RedisUnavailable: Redis does not answer.
    """
    layout = await found(redis, keys)
    if layout != LAYOUT:
        raise ConfigError(
            f"Redis stores data of layout {layout}, but this version uses layout {LAYOUT}: stop"
            " all processes of one version before you start the other (docs/deploying.md,"
            " Upgrading)"
        )
