"""Leases of this process in one partition of the frontier, with pending reports.

A page that ends without a request leaves its grant to the next one of its domain: where a rule
allows one at a time, each such page takes a call. So further ones are requested with the next
grant, as *spare* ones that have none: twice as many as have just ended, up to ``MOST_SPARES``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from crawling.lease.last_contact import LastContact
from crawling.lease.pending_report import End, LeaseReport, PendingReport
from crawling.page.page import Page
from crawlstream.model.effects import UNSENT

MOST_SPARES = 128
"""Spare pages of a domain. Their ends fit one exchange, with those of other pages."""
_MOST_DOMAINS = 64
"""Domains whose unused grants are counted: those of the latest."""


@dataclass(slots=True)
class PartitionLeases:
    """The leases of one partition: a token names one of them."""

    contact: LastContact
    pages: dict[str, Page] = field(default_factory=dict)
    """Pages by token."""
    report: PendingReport = field(default_factory=PendingReport)
    is_crowded: bool = False
    """True if the partition has no room for links, as far as is known."""
    _spare: int = 0
    _unused: dict[str, int] = field(default_factory=dict)
    """Pages that ended without a request since the latest grant of their domain."""

    def __len__(self) -> int:
        """Return the number of pages with a grant, also of those whose end is to be reported."""
        return len(self.pages) - self._spare

    def add(self, page: Page) -> None:
        """Add a new page."""
        self.pages[page.token] = page
        if page.lease.is_spare:
            self._spare += 1
        else:
            self._unused.pop(page.lease.domain, None)

    def end(self, page: Page, end: End) -> None:
        """Add the end of a page to the report; without a request, its grant is unused."""
        self.report.end(end)
        if end.sent_ms == UNSENT and page.located is None:
            domain = page.lease.domain
            self._unused[domain] = self._unused.get(domain, 0) + 1
            if len(self._unused) > _MOST_DOMAINS:
                del self._unused[next(iter(self._unused))]

    def spares(self) -> Mapping[str, int]:
        """Return how many spare pages to request with the next grant, by domain."""
        return {domain: min(2 * n, MOST_SPARES) for domain, n in self._unused.items()}

    def open_pages(self, *, unsent_only: bool = False) -> list[Page]:
        """Pages that have not ended, perhaps only those whose request has not left."""
        return [
            page
            for page in self.pages.values()
            if page.phase.is_unsent or (page.is_open and not unsent_only)
        ]

    def alive(self) -> Collection[str]:
        """Return the tokens that this process still holds."""
        return list(self.pages)

    @property
    def has_report(self) -> bool:
        """Return whether a report is pending."""
        return bool(self.report)

    def take_report(self) -> LeaseReport:
        """Take the next report; it must be sent again until it is answered."""
        return self.report.take()

    def forget(self, token: str) -> Page | None:
        """Remove a lease whose end the frontier has taken, or which another worker has now."""
        self.report.forget(token)
        page = self.pages.pop(token, None)
        self._spare -= page is not None and page.lease.is_spare
        return page
