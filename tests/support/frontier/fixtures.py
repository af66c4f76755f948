"""Fixtures of the frontier's tests; a module has them by ``pytest_plugins``."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from crawlstream_frontier.reckoning import Reckoning
from support.frontier.audit import audit
from support.frontier.bench import Bench, open_bench


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
    # No caller sees time pass.
    monkeypatch.setattr(Reckoning, "known", lambda _: (0, 0))
