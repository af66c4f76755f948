"""The waste guard as it watches: pages vote, sketches change, and verdicts are published.

Nothing waits for it, and it changes no link. Votes that cannot be stored are dropped.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from zlib import crc32

import structlog

from crawling.metrics import GUARD_CONFLICTS, GUARD_PAGES, GUARD_SITES
from crawling.page.page import Page
from crawling.waste.ballots import Ballot, Ballots, SiteName
from crawling.waste.evidence import may_vote, vote_of
from crawling.waste.sketches import Counted, SiteVotes, count, in_calls
from crawlstream.model.event import GuardVerdict
from crawlstream.model.url import host_of
from crawlstream_frontier.waste.families import VerdictChange
from crawlstream_frontier.waste.texts import Kind
from crawlstream_frontier.worker.sketch_store import SketchStore

_LOOK_EVERY_S = 1.0
"""Sites that are due within this time share calls of Redis, which cost half as much."""
_CALM_SHARE = 8
"""Number of pages of a calm site of which one votes."""
_KINDS = {Kind.HEAVY: "dup", Kind.DUP: "dup", Kind.FRESH: "fresh", Kind.MAYBE: "maybe"}
_STATES = ("open", "last", "dropped", "refused")
"""From the best to the worst."""

log = structlog.get_logger()


class WasteWatch:
    """Collects the votes of this process and brings them into the sketches."""

    def __init__(
        self,
        stores: Callable[[int], SketchStore],
        site_of: Callable[[int, str], str],
        publish: Callable[[GuardVerdict], Awaitable[None]],
    ) -> None:
        """``stores`` and ``site_of`` take the number of a partition."""
        self._stores = stores
        self._site_of = site_of
        self._publish = publish
        self._ballots = Ballots(lambda ballot: _count_site(ballot, ""))

    def note(self, page: Page) -> None:
        """Let a page vote that has ended with a response."""
        if not may_vote(page):
            return
        lease = page.lease
        site = SiteName(lease.partition, lease.domain)
        if self._ballots.of(site).is_calm and crc32(page.id.encode()) % _CALM_SHARE:
            return
        vote = vote_of(page, lambda url: self._is_of(site, lease.entry.url, url))
        self._ballots.add(site, vote, time.monotonic())

    def _is_of(self, site: SiteName, own: str, url: str) -> bool:
        return host_of(url) == host_of(own) or self._site_of(site.partition, url) == site.domain

    async def run(self) -> None:
        """Count votes until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            await self.count_due()

    async def count_due(self) -> None:
        """Count the votes of all sites with enough of them."""
        by_partition = defaultdict[int, list[SiteVotes]](list)
        for site in list(self._ballots.due(time.monotonic())):
            raw = self._ballots.of(site).raw
            votes = self._ballots.take(site)
            by_partition[site.partition].append(SiteVotes(site.domain, votes, raw))
        for partition, sites in by_partition.items():
            for some in in_calls(sites):
                await self._count(partition, some)

    async def _count(self, partition: int, sites: Sequence[SiteVotes]) -> None:
        try:
            done = await count(self._stores(partition), sites)
            GUARD_CONFLICTS.inc(done.conflicts)
            for each in done.counted:
                await self._counted(partition, each)
        except Exception as error:  # noqa: BLE001  the guard is a hint: it must not end a worker
            log.warning("guard", outcome="votes_lost", sites=len(sites), error=repr(error)[:200])

    async def _counted(self, partition: int, counted: Counted) -> None:
        ballot = self._ballots.of(SiteName(partition, counted.domain))
        ballot.raw, ballot.is_calm = counted.raw, counted.sketch.is_calm
        verdicts = [family.verdict for family in counted.sketch.families]
        _count_site(ballot, max(verdicts, key=_STATES.index, default="open"))
        for kind, pages in counted.kinds.items():
            GUARD_PAGES.labels(_KINDS[kind]).inc(pages)
        for change in counted.changes:
            await self._tell(counted.domain, change)

    async def _tell(self, site: str, change: VerdictChange) -> None:
        told = {"family": change.family, "before": change.before, "after": change.after}
        log.info("guard_verdict", site=site, **told)
        now = int(time.time())
        event = GuardVerdict(server_time=now, site=site, why=change.counts, mode="watch", **told)
        await self._publish(event)


def _count_site(ballot: Ballot, state: str) -> None:
    if ballot.state != state:
        for name, step in ((ballot.state, -1), (state, 1)):
            if name:
                GUARD_SITES.labels(name).inc(step)
        ballot.state = state
