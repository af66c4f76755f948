"""End pages before their requests: Kafka has their events first."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import structlog

from crawling.background import Tasks
from crawling.lease.leases import Leases
from crawling.page.guard_notes import GuardNotes
from crawling.page.page import Page
from crawling.publish.page_answers import PageAnswers
from crawling.publish.publisher import Publisher
from crawlstream.boot.failpoints import failpoint
from crawlstream.bus.records import RecordTooLarge
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.effects import Outcome
from crawlstream.model.event import PagesSkipped, SkippedPage
from crawlstream.model.url import domain_key, host_of

MOST_PAGES = 500
"""Pages of one event."""
_MOST_BYTES = 128 * 1024
"""URLs and ids of one event: a topic may take less than 500 pages with long URLs."""

log = structlog.get_logger()


class _Why(NamedTuple):
    """Why pages are skipped, as their event says it; texts that do not apply are empty."""

    reason: str
    family: str
    by: str


class Skipping:
    """Ends leased pages without a request, as *skipped*.

    Kafka acknowledges their ``pages_skipped`` events before their ends are reported to the
    frontier. So a page with an event, whose worker dies, comes again under the same id.
    """

    def __init__(self, leases: Leases, publisher: Publisher, tasks: Tasks) -> None:
        self._leases = leases
        self._publisher = publisher
        self._answers = PageAnswers(publisher)
        self._tasks = tasks

    def skip_soon(
        self, pages: Iterable[Page], *, reason: str, family: str = "", by: str = ""
    ) -> None:
        """Skip pages in a task of its own; see ``skip``."""
        self._tasks.spawn(self.skip(pages, reason=reason, family=family, by=by))

    async def skip(
        self, pages: Iterable[Page], *, reason: str, family: str = "", by: str = ""
    ) -> None:
        """End pages of any crawls and sites, whose requests have not set out.

        ``family`` is the name of their family of URLs, safe to show; ``by`` the budget that their
        domain has spent. Pages that have ended meanwhile, or are leased by another worker, stay as
        they are. GivenUp: the worker is to end and Kafka takes nothing; the pages stay open.
        """
        for some in _events(pages):
            await self._skip(some, _Why(reason, family, by))

    async def _skip(self, pages: Sequence[Page], why: _Why) -> None:
        try:
            await self._publisher.skipped(_event_of(pages, why))
        except RecordTooLarge:
            if len(pages) == 1:
                raise
            half = len(pages) // 2
            await self._skip(pages[:half], why)
            await self._skip(pages[half:], why)
            return
        failpoint("after_publish")
        site = pages[0].lease.domain
        told = {name: text for name, text in why._asdict().items() if text}
        log.info("settle", outcome="skipped", **told, site=site, pages=len(pages))
        for page in pages:
            if page.is_asked_for:
                await self._answers.fail(page, "skipped")
            if why.family:
                page.guard = GuardNotes(families=Counter({(why.reason, why.family): 1}))
            self._leases.settle(page, Outcome.SKIPPED, why.reason)


def _events(pages: Iterable[Page]) -> Iterator[Sequence[Page]]:
    """Divide pages into the events that name them: each is of one run and one site."""
    groups: dict[tuple[CrawlKey, int, str], list[Page]] = {}
    for page in pages:
        if page.is_open:
            lease = page.lease
            groups.setdefault((lease.crawl, lease.run, _site_of(page)), []).append(page)
    for group in groups.values():
        some, size = list[Page](), 0
        for page in group:
            more = len(page.id) + len(page.lease.entry.url.encode())
            if some and (len(some) == MOST_PAGES or size + more > _MOST_BYTES):
                yield some
                some, size = [], 0
            some.append(page)
            size += more
        yield some


def _site_of(page: Page) -> str:
    return domain_key(host_of(page.lease.entry.url))


def _event_of(pages: Sequence[Page], why: _Why) -> PagesSkipped:
    lease = pages[0].lease
    return PagesSkipped(
        crawl=lease.crawl,
        run=lease.run,
        server_time=int(time.time()),
        reason=why.reason,
        family=why.family,
        by=why.by,
        site=_site_of(pages[0]),
        pages=[SkippedPage(page.id, page.lease.entry.url) for page in pages],
        firing=lease.firing,
    )
