"""The one place that creates a frontier: no call does, for it may be asked of a wrong Redis.

A frontier of one partition is there once its ``m`` has a layout. One of several has its layout
below the same prefix, as a key of its own, and an ``m`` for each partition. So processes that
disagree about the number of partitions meet at the first key that they look at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self, cast

from redis.asyncio import Redis

from crawlstream.frontier.scripts import Scripts
from crawlstream.keys import Partitions

LAYOUT = 1
"""What the keys hold; another number where a version changes that."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a frontier lies in Redis."""

    version: int = LAYOUT
    partitions: int = 1

    @classmethod
    def read(cls, text: bytes) -> Self:
        """As Redis has it: ``1``, or ``1/16`` for 16 partitions."""
        version, _, partitions = text.partition(b"/")
        return cls(int(version), int(partitions or 1))

    @property
    def text(self) -> str:
        """As ``read`` takes it."""
        return f"{self.version}/{self.partitions}" if self.partitions > 1 else f"{self.version}"


async def create_frontier(scripts: Scripts, layout: Layout | None = None) -> Layout:
    """Let there be a frontier, or one partition of it, unless there is: at a start, in recovery.

    ``layout`` None: of this version, with one partition. Answers the layout that is there.
    RedisUnavailable: no answer; repeating it is safe.
    """
    return await _noted(scripts, "found", layout or Layout())


async def create_partitions(redis: Redis, partitions: Partitions) -> Layout:
    """Let there be a frontier of so many partitions, unless there is one of another layout.

    Answers the layout that is there; if it is another one, nothing was created.
    RedisUnavailable: no answer; repeating it is safe.
    """
    wanted = Layout(partitions=partitions.number)
    root = Scripts(redis, partitions.root)
    if partitions.number == 1:
        return await create_frontier(root, wanted)
    found = await _noted(root, "divide", wanted)
    for partition in range(partitions.number):
        if found == wanted:
            scripts = Scripts(redis, partitions.keys(partition))
            found = await create_frontier(scripts, wanted)
    return found


async def _noted(scripts: Scripts, operation: str, layout: Layout) -> Layout:
    return Layout.read(cast(bytes, await scripts.run(operation, layout.text)))
