"""Run the Lua operations of the frontier, loading each where Redis does not know it yet.

Every operation takes the prefix of all keys as its only key; the keys that it builds share its hash
tag. Operations that use the frontier clock get the caller's knowledge of it behind their own
arguments, and return the new one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Protocol

from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import (
    MasterDownError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)
from redis.exceptions import TimeoutError as RedisTimeoutError

from crawlstream.errors import (
    PASSING_REFUSALS,
    FrontierFull,
    FrontierMoved,
    NoFrontier,
    RedisUnavailable,
)
from crawlstream.keys import FrontierKeys
from crawlstream_frontier.reckoning import Reckoning
from crawlstream_frontier.sources import is_timed, source_of


@cache
def digest_of(operation: str) -> str:
    """Return the name under which Redis caches the text of one operation."""
    return hashlib.sha1(source_of(operation).encode(), usedforsecurity=False).hexdigest()


@contextmanager
def our_errors() -> Iterator[None]:
    """Raise errors of Redis as FrontierFull or RedisUnavailable."""
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
        if str(error).startswith("MOVEDFRONTIER "):
            raise FrontierMoved(str(error).removeprefix("MOVEDFRONTIER ")) from error
        if str(error).startswith(PASSING_REFUSALS):
            raise RedisUnavailable(
                f"Redis is temporarily unable to run the command: {error}"
            ) from error
        raise


class Run(Protocol):
    """Runs one operation; see ``Scripts.run``."""

    def __call__(self, operation: str, *args: str | bytes | int) -> Awaitable[object]:
        """Return the answer of the script."""
        ...


class Scripts:
    """Runs operations on one Redis, loading each where the server does not know it yet.

    One instance per client: it keeps its process' knowledge of the frontier clock.
    """

    def __init__(self, redis: Redis, keys: FrontierKeys) -> None:
        self.redis: Any = redis
        """The client; redis-py's types do not say which of its methods are coroutines."""
        self.keys = keys
        self._reckoning = Reckoning()

    async def run(self, operation: str, *args: str | bytes | int) -> object:
        """Run one operation on the partition; return the answer of the script.

        FrontierFull: Redis is at its memory limit and the operation would add to it.
        RedisUnavailable: no answer. The operation may have taken effect; repeating it is safe.
        """
        if not is_timed(operation):
            return await self._call(operation, args)
        known = self._reckoning.known()
        answer, reckoning_ms, redis_epoch = await self._call(operation, (*args, *known))
        self._reckoning.learn(redis_epoch, reckoning_ms)
        return answer

    async def _call(self, operation: str, args: Sequence[str | bytes | int]) -> Any:
        with our_errors():
            digest = digest_of(operation)
            try:
                return await self.redis.evalsha(digest, 1, self.keys.tag, *args)
            except NoScriptError:
                if isinstance(self.redis, RedisCluster):
                    # The key routes it to the right node, also if another one does not answer.
                    return await self.redis.eval(source_of(operation), 1, self.keys.tag, *args)
                await self.redis.script_load(source_of(operation))
                return await self.redis.evalsha(digest, 1, self.keys.tag, *args)
