"""Places where processes write heartbeats: one, or two of which either is enough.

A frontier of several partitions has the heartbeats of all processes twice, in partitions that are
far from each other, so that they can be read while one of them is unavailable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from redis.asyncio import Redis
from redis.exceptions import RedisError

from crawlstream.keys import FrontierKeys

ANSWER_S = 2.0
"""How long one of several places may take: heartbeats in the other one must not become rare."""

Place = tuple[Redis, FrontierKeys]
T = TypeVar("T")


async def of_any(
    places: Sequence[Place], ask: Callable[[Redis, FrontierKeys], Awaitable[T]]
) -> Sequence[T]:
    """Return the answers of the places that answer; RedisError (of the first) if none does."""
    if len(places) == 1:
        return [await ask(*places[0])]
    asked = await asyncio.gather(*(_in_time(ask(*place)) for place in places))
    answers = [answer for answer, _ in asked if answer is not None]
    if not answers:
        raise next(error for _, error in asked if error is not None)
    return [answer[0] for answer in answers]


async def _in_time(answer: Awaitable[T]) -> tuple[tuple[T] | None, Exception | None]:
    try:
        async with asyncio.timeout(ANSWER_S):
            return (await answer,), None
    except TimeoutError as error:
        return None, RedisError(f"no answer within {ANSWER_S:g} s: {error}")
    except (RedisError, OSError) as error:
        return None, error
