"""Screening with traces: times how long sampled pages wait for robots.txt and its verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from crawling.lease.traced import TracedLeases
from crawling.page.page import Page
from crawling.robots.screen import Screening


class TracedScreening:
    """Screens pages as without traces, and notes when that begins and ends."""

    def __init__(self, rest: Screening, leases: TracedLeases) -> None:
        self._rest = rest
        self._leases = leases

    def screen(self, pages: Iterable[Page], let_through: Callable[[Page], None]) -> None:
        """Let pages through that may be fetched, now or later; end the others."""

        def through(page: Page) -> None:
            if trace := self._leases.traced(page):
                trace.screened_at = self._leases.clock()
            let_through(page)

        pages = list(pages)
        for page in pages:
            if trace := self._leases.traced(page):
                trace.screen_at = self._leases.clock()
        self._rest.screen(pages, through)
