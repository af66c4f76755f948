"""Running processes, and the crawls that wait for others: screens and ``/v2`` say the same."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from redis.exceptions import RedisError

from crawlstream.errors import RedisUnavailable
from crawlstream.model.process import Process
from crawlstream.model.state import CrawlState
from crawlstream.model.words.condition import Spiders
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


async def living_spiders(service: Service) -> Spiders:
    """Return the spiders with a running crawler; None: unknown."""
    return spiders_of(await living_processes(service))


def spiders_of(processes: Sequence[Process] | None) -> Spiders:
    """Return the spiders of the crawlers among processes; None: unknown."""
    if processes is None:
        return None
    return frozenset(one.spider for one in processes if one.kind == "crawler")


async def with_lanes(
    service: Service, crawls: Sequence[CrawlState], spiders: Spiders
) -> Sequence[CrawlState]:
    """Return crawls with the spiders they wait for, if a crawler seems to be missing."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await service.frontier.queries.with_lanes(crawls, spiders or ())
    except (RedisUnavailable, TimeoutError):
        return crawls
