"""Load the Lua operations: one file each, with the parts that it includes put in place.

A line ``--- include: name`` stands for ``lua/includes/name.lua``. Every operation takes the prefix
of all keys as its only key; the keys that it makes share its hash tag. Those that go by the
frontier clock are told, behind their own arguments, what the caller knows of it, and answer it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import (
    MasterDownError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)
from redis.exceptions import TimeoutError as RedisTimeoutError

from crawlstream.errors import FrontierFull, NoFrontier, RedisUnavailable
from crawlstream.frontier.reckoning import Reckoning

_INCLUDE = re.compile(r"^--- include: (\w+)$", re.MULTILINE)
_CLOCK = "--- include: clock"
_BASES = ("--- include: ledger", "--- include: bands")
"""What follows one of these parts is a function of its own: Lua allows 200 names in one, and to
make a closure it walks along all names of the same function that other closures use. A function
may use 60 names from outside."""
_FOLDER = files("crawlstream.frontier") / "lua"
_PASSING = ("BUSY ", "MISCONF ", "NOGROUP ", "NOREPLICAS ", "UNBLOCKED ")
"""Beginnings of refusals that redis-py has no class for, and that end by themselves."""


@cache
def is_timed(operation: str) -> bool:
    """Whether an operation goes by the frontier clock."""
    return _CLOCK in (_FOLDER / f"{operation}.lua").read_text()


@cache
def source_of(operation: str) -> str:
    """The complete text of one operation."""
    text = (_FOLDER / f"{operation}.lua").read_text()
    if is_timed(operation):
        bases = [base for base in _BASES if base in text] or [_CLOCK]
        for base in reversed(bases):
            outer, _, inner = text.partition(base)
            answer = f"(function(){inner}\nend)()"
            if base == bases[0]:
                answer = f"with_time({answer})"
            text = f"{outer}{base}\nreturn {answer}\n"
    return _INCLUDE.sub(lambda match: (_FOLDER / "includes" / f"{match[1]}.lua").read_text(), text)


@cache
def digest_of(operation: str) -> str:
    """The name by which Redis knows the text of one operation."""
    return hashlib.sha1(source_of(operation).encode(), usedforsecurity=False).hexdigest()


@contextmanager
def our_errors() -> Iterator[None]:
    """Say in our words why Redis did not do it: FrontierFull or RedisUnavailable."""
    try:
        yield
    except OutOfMemoryError as error:
        raise FrontierFull from error
    except (RedisConnectionError, RedisTimeoutError) as error:
        raise RedisUnavailable(f"Redis does not answer: {error}") from error
    except (ReadOnlyError, MasterDownError) as error:
        raise RedisUnavailable(f"Redis rejects writes: {error}") from error
    except ResponseError as error:
        if str(error).startswith("NOFRONTIER "):
            raise NoFrontier from error
        if str(error).startswith(_PASSING):
            raise RedisUnavailable(
                f"Redis is temporarily unable to run the command: {error}"
            ) from error
        raise


class Scripts:
    """Run operations on one Redis, loading each where the server does not know it yet."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self._redis = redis
        self._prefix = prefix
        self._reckoning = Reckoning()

    async def run(self, operation: str, *args: str | bytes | int) -> object:
        """Run one operation on the partition; answers what the script returns.

        FrontierFull: Redis is at its memory limit and the operation would add to it.
        RedisUnavailable: no answer. The operation may have taken effect; repeating it is safe.
        """
        if not is_timed(operation):
            return await self._call(operation, args)
        known = self._reckoning.known()
        answer, reckoning_ms, life = await self._call(operation, (*args, *known))
        self._reckoning.learn(life, reckoning_ms)
        return answer

    async def _call(self, operation: str, args: Sequence[str | bytes | int]) -> Any:
        with our_errors():
            digest = digest_of(operation)
            try:
                return await self._redis.evalsha(digest, 1, self._prefix, *args)
            except NoScriptError:
                await self._redis.script_load(source_of(operation))
                return await self._redis.evalsha(digest, 1, self._prefix, *args)
