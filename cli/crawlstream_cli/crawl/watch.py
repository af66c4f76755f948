"""State of a followed crawl in the frontier: its queue, and the reason why it waits."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence

from redis.exceptions import RedisError

from crawlstream.boot.settings import Settings
from crawlstream.called import COMMAND
from crawlstream.errors import CrawlstreamError
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.inspection import DomainReport
from crawlstream.model.state import CrawlState
from crawlstream.model.throttle_table import ThrottleTable, site_of
from crawlstream_cli.common.absent import absence
from crawlstream_cli.common.follow import CrawlProgress
from crawlstream_frontier.opening.servers import open_frontiers
from crawlstream_frontier.partitions.frontiers import Frontiers

SILENCE_S = 10.0
"""Seconds without results after which to check that crawlers are running."""
_EVERY_S = 1.0
_PATIENCE_S = 2.0
_RATE_OVER_S = 60.0


class CrawlWatch:
    """Reads the frontier's state every second; nothing is known while Redis does not answer.

    ``on_absence`` is called with the reason why nothing comes, each time that it changes; '' once
    results come.
    """

    def __init__(
        self,
        settings: Settings,
        crawl: CrawlKey,
        progress: CrawlProgress,
        *,
        hosts: Sequence[str],
        lanes: Sequence[str] = (),
        on_absence: Callable[[str], None],
    ) -> None:
        """``hosts`` are those of the seeds; where they are one site, its pace is watched.

        ``lanes``: whose crawlers are to fetch it; none: those of its spider.
        """
        self.crawl = crawl
        self._lanes = lanes or (crawl.spiderid,)
        self.lane = self._lanes[0]
        """Lane whose crawlers are missing, if any are."""
        self.progress = progress
        self.state: CrawlState | None = None
        self.site: DomainReport | None = None
        """The one site that the crawl is about."""
        self.absence = ""
        self._settings = settings
        self._hosts = hosts
        self._on_absence = on_absence
        self._ended: deque[tuple[float, int]] = deque([(time.monotonic(), 0)])
        self._came_at = time.monotonic()

    @property
    def rate(self) -> float:
        """Pages per second that ended in the last minute."""
        (since, before), (_, count) = self._ended[0], self._ended[-1]
        return (count - before) / max(time.monotonic() - since, _EVERY_S)

    @property
    def eta_s(self) -> float | None:
        """Seconds until the queue is done, at its current pace and within its site's rule."""
        rates = [self.rate] if self.rate else []
        if self.site and self.site.rule and self.site.rule.effective_hits:
            rule = self.site.rule
            rates.append(rule.effective_hits / rule.window_s)
        waiting = self.state.pending + self.state.held if self.state else 0
        if not (rates and waiting):
            return None
        return max(waiting / min(rates), self.site.next_ms / 1000 if self.site else 0)

    async def run(self) -> None:
        """Watch until cancelled."""
        self._note_absence(await self._missing())
        async with open_frontiers(self._settings) as frontier:
            while True:
                try:
                    async with asyncio.timeout(_PATIENCE_S):
                        await self._look(frontier)
                except (CrawlstreamError, RedisError, TimeoutError, OSError):
                    self.state = self.site = None
                await self._listen()
                await asyncio.sleep(_EVERY_S)

    async def _look(self, frontier: Frontiers) -> None:
        self.state = await frontier.queries.crawl_state(self.crawl, with_domains=False)
        sites = sites_of(self._hosts, await frontier.rules.table())
        self.site = await frontier.inspector.domain(sites[0]) if len(sites) == 1 else None

    async def _listen(self) -> None:
        """Note what has come; after a silence ask who is missing, and again until it is over."""
        now, count = time.monotonic(), self.progress.ended
        if count != self._ended[-1][1]:
            self._came_at = now
            self._note_absence("")
        elif now - self._came_at >= SILENCE_S:
            self._came_at = now
            self._note_absence(await self._missing())
        self._ended.append((now, count))
        while self._ended[0][0] < now - _RATE_OVER_S:
            self._ended.popleft()

    async def _missing(self) -> str:
        is_taken = self.progress.accepted or self.state is not None
        for lane in self._lanes:
            if told := await absence(self._settings, lane, with_intake=not is_taken):
                self.lane = lane
                return told
        return ""

    def _note_absence(self, sentence: str) -> None:
        if sentence != self.absence:
            self.absence = sentence
            self._on_absence(sentence)


def sites_of(hosts: Sequence[str], table: ThrottleTable | None) -> list[str]:
    """Return the sites under which requests to these hosts are counted."""
    return list(dict.fromkeys(site_of(table, host) for host in hosts))


async def rule_lines(settings: Settings, hosts: Sequence[str]) -> Sequence[str]:
    """Lines about the rule of each of the first sites; none where Redis does not answer."""
    try:
        async with open_frontiers(settings) as frontier, asyncio.timeout(_PATIENCE_S):
            table = await frontier.rules.table()
    except (CrawlstreamError, RedisError, TimeoutError, OSError):
        return ()
    if table is None:
        return (f"No throttle rules are known yet, so nothing is fetched: {COMMAND} status",)
    sites = sites_of(hosts, table)
    told = [line for site in sites[:_SITES_TOLD] for line in _lines_of_rule(site, table)]
    more = len(sites) - _SITES_TOLD
    return [*told, f"{more} more sites: {COMMAND} throttle get"] if more > 0 else told


_SITES_TOLD = 3


def _lines_of_rule(site: str, table: ThrottleTable) -> Sequence[str]:
    """The rule, and on a line of its own what changes it."""
    if (block := table.block_of(site)) is not None:
        remedy = f"  to allow it: {COMMAND} throttle unblock {block}"
        return f"{site} is blocked, so nothing is fetched from it", remedy
    by_default = " (the default)" if table.named_rule(site) is None else ""
    remedy = f"  faster or slower: {COMMAND} throttle set {site} --hits N --window SECONDS"
    return f"{site} gets {table.rule_for(site)}{by_default}", remedy
