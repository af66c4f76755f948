"""Running processes, for screens."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from redis.exceptions import RedisError

from crawlstream.model.process import Process
from crawlstream.stats.heartbeat import living_in
from rest_service.service import Service

PATIENCE_S = 3.0
"""Seconds until a screen reports that Redis does not answer."""


async def living_processes(service: Service) -> Sequence[Process] | None:
    """Return all running processes; None if Redis is unavailable."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            found: Sequence[Process] = await service.sampler.shared(
                "processes", lambda: living_in(service.frontier.heartbeats)
            )
    except (RedisError, TimeoutError):
        return None
    return sorted(found, key=lambda one: one.name)
