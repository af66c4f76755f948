"""Bugs on purpose in the scripts of partitions, each with the test that finds it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final, NamedTuple

import pytest
from redis.asyncio import Redis
from redis.exceptions import RedisError

from crawlstream.errors import CrawlstreamError
from support.frontier.lua import planted
from support.partitions.two import open_two

_RED: Final = (AssertionError, CrawlstreamError, LookupError, RedisError, TimeoutError, ValueError)
"""Errors with which a test or a walk ends that has found something."""


class Bug(NamedTuple):
    """Text in exactly one place of the Lua, its replacement, and the test that finds it."""

    right: str
    wrong: str
    found_by: Callable[..., Awaitable[None]]


async def assert_found(redis: Redis, bug: Bug) -> None:
    """The test of a bug fails with it, in whatever way."""
    given = {"two": await open_two(redis), "redis": redis}
    asked = {name: given[name] for name in inspect.signature(bug.found_by).parameters}
    with planted(bug.right, bug.wrong), pytest.raises((*_RED, pytest.fail.Exception)):
        await bug.found_by(**asked)


class WalkBug(NamedTuple):
    """Bug of the Lua that random walks find."""

    right: str
    wrong: str
    first: int = 0
    """The walk that finds it, or one a little before."""


async def is_found(bug: WalkBug, walk: Callable[[Random], Awaitable[object]], most: int) -> bool:
    """Return whether one of ``most`` walks differs from its model."""
    with planted(bug.right, bug.wrong):
        for seed in range(bug.first, bug.first + most):
            try:
                await walk(Random(seed))
            except _RED:
                return True
    return False
