"""Waiting for a service at the start of a process: processes may start in any order."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog
from redis.exceptions import RedisError

from crawlstream.boot.redis.refusals import refuse
from crawlstream.errors import ConfigError, KafkaRefused, Unavailable
from crawlstream.retry import Backoff, until_available

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 3.0

_NOT_YET = (Unavailable, OSError, RedisError)
"""Errors of a client whose service is still starting, or unavailable.

Refusals among them are recognized separately.
"""

log = structlog.get_logger()
T = TypeVar("T")


async def until_ready(
    name: str, attempt: Callable[[], Awaitable[T]], *, stop: asyncio.Event | None = None
) -> T:
    """Repeat ``attempt`` with growing pauses until ``name`` answers; give its answer.

    ConfigError: Redis or Kafka refuses what this process is or does, which waiting does not change.
    Told to stop meanwhile, the process ends here with exit 0: it has nothing to give back yet.
    """

    def note(error: Exception, pause_s: float) -> None:
        refuse(error)
        if isinstance(error, KafkaRefused):
            raise ConfigError(str(error)) from error
        log.info("wait", service=name, error=str(error), pause_s=pause_s)

    async def sleep(pause_s: float) -> None:
        if await _was_stopped(stop or asyncio.Event(), pause_s):
            raise SystemExit(0)

    return await until_available(
        attempt,
        backoff=Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S),
        on_wait=note,
        errors=_NOT_YET,
        sleep=sleep,
    )


async def _was_stopped(stop: asyncio.Event, within_s: float) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            await stop.wait()
    return stop.is_set()
