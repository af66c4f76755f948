"""The source ``frontier`` of a list: pages of a site that wait for their request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import NamedTuple

from crawlstream.model.url import domain_key, host_of
from crawlstream_frontier.partitions.frontiers import Frontiers
from crawlstream_frontier.scrapes.scrape_names import is_scrapes

MOST_STEPS = 2_000
"""Calls of a list to Redis: each takes up to 52 entries, or 5 chunks of 128."""


class WaitingPart(NamedTuple):
    """A part of the pages that wait."""

    urls: Sequence[str] = ()
    cut: Mapping[str, int] = {}
    """Number of missing pages, by reason."""


async def waiting_parts(
    frontiers: Frontiers, url: str, appids: frozenset[str]
) -> AsyncIterator[WaitingPart]:
    """Yield the URLs that wait at the registrable domain of a URL; RedisUnavailable.

    In crawls of these applications, or of all if there are none; not those of scrapes.
    """
    domain = domain_key(host_of(url))
    frontier = frontiers.of(domain)
    crawls = [
        state
        for state in await frontier.queries.crawls()
        if (not appids or state.crawl.appid in appids) and not is_scrapes(state.crawl.crawlid)
    ]
    yield WaitingPart(cut={"waiting_spilled": sum(state.spilled for state in crawls)})
    waiting = [state.crawl for state in crawls if state.queued or state.delayed]
    steps = 0
    async for found in frontier.waiting.urls(waiting, domain):
        steps += 1
        if steps > MOST_STEPS:
            yield WaitingPart(cut={"waiting_cut": 1})
            return
        yield WaitingPart(found.urls, {"waiting_unread": found.unread})
