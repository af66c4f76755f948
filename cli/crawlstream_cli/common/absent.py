"""Check for crawlers of a spider, by the heartbeats of the cluster's processes in Redis."""

from __future__ import annotations

import asyncio

from redis.exceptions import RedisError

from crawlstream.boot.settings import Settings
from crawlstream.called import COMMAND
from crawlstream.errors import CrawlstreamError
from crawlstream.model.words import condition
from crawlstream.stats.heartbeat import living_in
from crawlstream_frontier.opening.servers import open_frontiers

_PATIENCE_S = 2.0


async def absence(settings: Settings, spiderid: str, *, with_intake: bool = False) -> str:
    """A sentence if no crawler of a spider runs; '' if one does, or if Redis does not answer.

    ``with_intake``: also if no kafka-monitor runs, which a request needs to be taken.
    """
    try:
        async with open_frontiers(settings) as frontier, asyncio.timeout(_PATIENCE_S):
            heard = await living_in(frontier.heartbeats)
    except (CrawlstreamError, RedisError, TimeoutError):
        return ""
    if with_intake and not any(process.kind == "kafka-monitor" for process in heard):
        return f"No kafka-monitor is running, so the request waits: see `{COMMAND} status`"
    spiders = {process.spider for process in heard if process.kind == "crawler"}
    if spiderid in spiders:
        return ""
    return f"{condition.absence(spiderid, spiders=spiders)}, so the crawl waits"
