"""A frontier whose time the test makes: true time, and what Redis' clock and callers say of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from redis.asyncio import Redis

from crawlstream_frontier import reckoning
from crawlstream_frontier.codec.values import pack
from support.frontier.bench import KEYS
from support.frontier.lua import rewritten

_REDIS_CLOCK = "clock of this machine"
_ASKED, _READ = "redis.call('TIME')", f"cmsgpack.unpack(redis.call('GET', '{_REDIS_CLOCK}'))"


@dataclass
class Times:
    """Times of the clocks, which stand still by themselves. All in ms."""

    now: float = 50_000.25
    """True time, which a caller's clock measures."""
    ahead: float = 1.6e12
    """Seconds by which Redis' clock is ahead of true time."""
    slowest_ms: tuple[float, float] = (0, 0)
    """The longest time that a request and an answer take."""
    random: Random = field(default_factory=Random)
    seen: list[tuple[float, int]] = field(default_factory=list)
    """True time and the frontier clock at each call."""
    meanwhile: Callable[[], Awaitable[object]] | None = None
    """Called while the next request is in flight."""

    def monotonic(self) -> float:
        """A caller's clock, in s."""
        return self.now / 1000

    def way_ms(self, which: int) -> float:
        """Time that a request (0), or an answer (1), takes."""
        return self.random.random() ** 4 * self.slowest_ms[which]

    def given_away_ms(self) -> float:
        """The most that the frontier clock has gained on true time, between any two calls."""
        least, most = float("inf"), 0.0
        for at, clock in self.seen:
            least = min(least, clock - at)
            most = max(most, clock - at - least)
        return most

    def lost_ms(self) -> float:
        """Total time by which the frontier clock is behind true time."""
        (first_at, first), (last_at, last) = self.seen[0], self.seen[-1]
        return (last_at - first_at) - (last - first)


class TimedRedis(Redis):
    """A client whose calls take the time that they are given."""

    times: Times

    async def evalsha(self, *args: Any) -> Any:
        """Run a script."""
        times = self.times
        arrives = times.now + times.way_ms(0)
        meanwhile, times.meanwhile = times.meanwhile, None
        if meanwhile:
            await meanwhile()
        times.now = max(times.now, arrives)
        seconds, ms = divmod(int(times.now + times.ahead), 1000)
        await self.set(_REDIS_CLOCK, pack([seconds, ms * 1000]))
        answer = await super().evalsha(*args)
        times.seen.append((times.now, int(await self.hget(KEYS.meta(), "clock") or 0)))
        times.now += times.way_ms(1)
        return answer


@asynccontextmanager
async def timed(redis: Redis, times: Times) -> AsyncIterator[TimedRedis]:
    """A client of the same Redis whose scripts, and callers, read their clocks from ``times``."""
    known = redis.connection_pool.connection_kwargs
    with rewritten(_ASKED, _READ), pytest.MonkeyPatch.context() as patch:
        patch.setattr(reckoning, "monotonic", times.monotonic)
        async with TimedRedis(host=known["host"], port=known["port"], db=known["db"]) as client:
            client.times = times
            yield client
            await client.delete(_REDIS_CLOCK)
