"""Fixtures of the frontier's tests; a module has them by ``pytest_plugins``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis

from support.frontier import KEYS, Bench, open_bench
from support.frontier_audit import audit


@pytest.fixture
async def bench(redis: Redis) -> AsyncIterator[Bench]:
    """An empty frontier whose rule is wide open; audited when the test is over."""
    yield await open_bench(redis)
    await audit(redis)


@pytest.fixture
async def unruled(redis: Redis) -> AsyncIterator[Bench]:
    """An empty frontier that no rules have reached yet."""
    yield await open_bench(redis, default=None)
    await audit(redis)


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time passes on the frontier clock but by ``advance``, however busy the machine is."""
    run = Redis.evalsha
    far = 10**15

    async def run_at_once(self: Redis, *args: Any) -> Any:
        # The machine's clock seems to have been set back since the last call.
        if await self.hexists(KEYS.meta(), "clock"):
            await self.hset(KEYS.meta(), "wall", far)
        return await run(self, *args)

    monkeypatch.setattr(Redis, "evalsha", run_at_once)
