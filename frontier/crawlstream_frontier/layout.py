"""The only module that creates a frontier: no call does, as it may be sent to a wrong Redis.

A frontier of one partition exists once its ``m`` has a layout. One of several has its layout
below the same prefix, as a key of its own, and an ``m`` for each partition. So processes that
disagree about the number of partitions notice it at the first key that they read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self, cast

from redis.asyncio import Redis

from crawlstream.keys import Partitions
from crawlstream_frontier.scripts import Scripts, our_errors

LAYOUT = 1
"""Version of the keys' contents; a version that changes them has another number."""
BEING_FILLED = 0
"""Value of the layout while another frontier is moved here; see ``frontier/moving``."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Layout of a frontier in Redis."""

    version: int = LAYOUT
    partitions: int = 1
    share: str = ""
    """First and last of the partitions that this server has, ``4-7``; empty: all of them."""

    @classmethod
    def read(cls, text: bytes) -> Self:
        """Read the layout from Redis: ``1``, ``1/16`` for 16 partitions, ``1/16:4-7`` for four."""
        version, _, rest = text.decode().partition("/")
        partitions, _, share = rest.partition(":")
        return cls(int(version), int(partitions or 1), share)

    @property
    def text(self) -> str:
        """Return the text that ``read`` reads."""
        parts = f"/{self.partitions}" if self.partitions > 1 else ""
        return f"{self.version}{parts}{self.share and ':' + self.share}"


async def create_frontier(
    scripts: Scripts, layout: Layout | None = None, *, is_lost: bool = False
) -> Layout:
    """Create a frontier, or one partition of it, unless it exists: at a start, in recovery.

    ``layout`` None: of this version, with one partition. ``is_lost``: it replaces one
    whose domains may have had requests a moment ago. Returns the present layout.
    RedisUnavailable: no answer; repeating it is safe.
    """
    return await _noted(scripts, "found", layout or Layout(), int(is_lost))


async def create_partitions(redis: Redis, partitions: Partitions) -> Layout:
    """Create a frontier of several partitions, unless there is one of another layout.

    Returns the present layout; if it is another one, nothing was created.
    RedisUnavailable: no answer; repeating it is safe.
    """
    wanted = Layout(partitions=partitions.number)
    root = Scripts(redis, partitions.root)
    if partitions.number == 1:
        return await create_frontier(root, wanted)
    found = await divide(root, wanted)
    for partition in range(partitions.number):
        if found == wanted:
            scripts = Scripts(redis, partitions.keys(partition))
            found = await create_frontier(scripts, wanted)
    return found


async def divide(root: Scripts, layout: Layout) -> Layout:
    """Note that the frontier of this name has several partitions, unless another layout is noted.

    Returns the present layout. RedisUnavailable: no answer; repeating it is safe.
    """
    return await _noted(root, "divide", layout)


async def known_division(root: Scripts) -> Layout | None:
    """Return the layout noted by ``divide``; None: nothing. RedisUnavailable: no answer."""
    with our_errors():
        text = await root.redis.get(root.keys.layout())
    return Layout.read(text) if text else None


async def known_layout(scripts: Scripts) -> Layout | None:
    """Return the layout that a frontier or partition was created with; None: there is none here.

    RedisUnavailable: no answer.
    """
    with our_errors():
        text = await scripts.redis.hget(scripts.keys.meta(), "layout")
    return Layout.read(text) if text else None


async def _noted(scripts: Scripts, operation: str, layout: Layout, *more: int) -> Layout:
    return Layout.read(cast(bytes, await scripts.run(operation, layout.text, *more)))
