"""The one place that creates a frontier: no call does, for it may be asked of a wrong Redis."""

from __future__ import annotations

from typing import cast

from crawlstream.frontier.scripts import Scripts

LAYOUT = 1
"""What the keys hold; another number where a version changes that."""


async def create_frontier(scripts: Scripts) -> int:
    """Let there be a frontier, unless there is one: a process does it at its start, and recovery.

    Answers its layout. RedisUnavailable: no answer; repeating it is safe.
    """
    return int(cast(int, await scripts.run("found", LAYOUT)))
