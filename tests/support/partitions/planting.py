"""Bugs on purpose in the scripts of partitions, each with the test that finds it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import pytest
from redis.asyncio import Redis

from crawlstream.errors import CrawlstreamError
from support.frontier.lua import planted
from support.partitions.two import open_two


class Bug(NamedTuple):
    """What stands in exactly one place of the Lua, what is put there instead, and who finds it."""

    right: str
    wrong: str
    found_by: Callable[..., Awaitable[None]]


async def assert_found(redis: Redis, bug: Bug) -> None:
    """The test of a bug fails with it, in whatever way."""
    given = {"two": await open_two(redis), "redis": redis}
    asked = {name: given[name] for name in inspect.signature(bug.found_by).parameters}
    errors = AssertionError, CrawlstreamError, LookupError, TimeoutError, ValueError
    with planted(bug.right, bug.wrong), pytest.raises((*errors, pytest.fail.Exception)):
        await bug.found_by(**asked)
