"""Releases spare pages that no screening has ended: they have no grant to be fetched with."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from crawling.lease.leases import Leases
from crawling.page.page import Page
from crawling.robots.screen import Screening


class SpareReturn:
    """Releases spare pages, and screens the others as before."""

    def __init__(self, rest: Screening, leases: Leases) -> None:
        self._rest = rest
        self._leases = leases

    def screen(self, pages: Iterable[Page], let_through: Callable[[Page], None]) -> None:
        """Let pages through that may be fetched now.

        Each release is to the front of a queue: the last page is the first, so they keep their
        order.
        """
        granted, spares = list[Page](), list[Page]()
        for page in pages:
            (spares if page.lease.is_spare else granted).append(page)
        for page in reversed(spares):
            self._leases.release(page)
        self._rest.screen(granted, let_through)
