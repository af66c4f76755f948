"""Versions side by side on one Redis: only those that lay out its keys alike.

Processes of two versions share a frontier while a cluster is being upgraded. Most versions can;
one that changes what a key holds raises :data:`LAYOUT`, and is refused until the others are gone.
"""

from __future__ import annotations

import contextlib

from redis.asyncio import Redis
from redis.exceptions import OutOfMemoryError

from crawlstream.errors import ConfigError
from crawlstream.keys import FrontierKeys

LAYOUT = 1


async def agree_on_layout(redis: Redis, keys: FrontierKeys) -> None:
    """Make sure that what Redis holds is laid out as this version has it.

    ConfigError: it is not. What redis-py raises where Redis does not answer is passed on.
    """
    meta = keys.meta()
    found = await redis.hget(meta, "layout")
    if found is None:
        # A Redis that is full takes no note; whoever starts next makes it.
        with contextlib.suppress(OutOfMemoryError):
            await redis.hsetnx(meta, "layout", str(LAYOUT))
            found = await redis.hget(meta, "layout")
    if found is not None and int(found) != LAYOUT:
        raise ConfigError(
            f"Redis holds keys of layout {int(found)}, and this version makes layout {LAYOUT}:"
            " end all processes of the one version before any of the other is started"
            " (docs/deploying.md, Upgrading)"
        )
