"""Extent of a move, counted without changing anything."""

from __future__ import annotations

from dataclasses import dataclass

from crawlstream_cli.repartition.stages import agree_on_old
from crawlstream_frontier.moving.move import read_frontier
from crawlstream_frontier.partitions.frontiers import Frontiers
from crawlstream_frontier.shelves.shelf import Shelf

PAGES_A_SECOND, DOMAINS_A_SECOND = 100_000, 10_000
"""As one process moves them; see docs/scaling.md."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePlan:
    """Extent of a move."""

    partitions: int
    """As there are now."""
    crawls: int
    domains: int
    waiting: int
    shelved: int
    """Number of waiting pages that are on the shelf."""
    delayed: int
    """Number of waiting pages that are delayed."""
    held: int
    """Pages that crawlers have: they come to their end first."""
    seen: int
    """URLs that are not fetched again."""
    seconds: int
    """Estimated seconds without crawling, besides the time for pages in flight."""


async def plan_of(old: Frontiers, shelf: Shelf | None) -> MovePlan:
    """Count what a frontier holds; RedisUnavailable."""
    await agree_on_old(old)
    frontier = await read_frontier(old, shelf)
    domains = seen = 0
    for crawl in frontier.crawls:
        for context in crawl.contexts:
            part = frontier.parts[context.partition]
            async for found in part.sizes(context):
                domains += len(found)
                seen += sum(found)
            async for _, slabs in part.slabs(context):
                seen += sum(map(len, slabs))
    totals = {
        name: sum(int(about.totals.get(name.encode(), 0)) for about in frontier.about)
        for name in ("queued", "delayed", "shelved", "held")
    }
    waiting = totals["queued"] + totals["delayed"]
    return MovePlan(
        partitions=len(old),
        crawls=sum(bool(crawl.contexts) for crawl in frontier.crawls),
        domains=domains,
        waiting=waiting,
        shelved=totals["shelved"],
        delayed=totals["delayed"],
        held=totals["held"],
        seen=seen,
        seconds=1 + waiting // PAGES_A_SECOND + domains // DOMAINS_A_SECOND,
    )
