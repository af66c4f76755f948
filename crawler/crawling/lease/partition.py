"""Leases of this process in one partition of the frontier, with pending reports."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from crawling.lease.last_contact import LastContact
from crawling.lease.pending_report import LeaseReport, PendingReport
from crawling.page.page import Page


@dataclass(slots=True)
class PartitionLeases:
    """The leases of one partition: a token names one of them."""

    contact: LastContact
    pages: dict[str, Page] = field(default_factory=dict)
    """Pages by token."""
    report: PendingReport = field(default_factory=PendingReport)
    is_crowded: bool = False
    """True if the partition has no room for links, as far as is known."""

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
        return self.pages.pop(token, None)
