"""Ends leased pages of domains that have spent a budget of their crawl, before their requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from crawling.page.page import Page
from crawling.publish.skipping import Skipping
from crawling.robots.screen import Screening

REASON = "domain_budget"


class DomainBudgets:
    """Skips pages whose domain has spent a budget, and screens the others as before."""

    def __init__(self, rest: Screening, skipping: Skipping) -> None:
        self._rest = rest
        self._skipping = skipping

    def screen(self, pages: Iterable[Page], let_through: Callable[[Page], None]) -> None:
        """Let pages through that may be fetched now; end the others.

        The result of a page that was retried or reaped may be published already: it is fetched.
        """
        kept: list[Page] = []
        over = defaultdict[str, list[Page]](list)
        for page in pages:
            budget = page.lease.spent_budget
            (over[budget] if budget and not page.lease.is_marked else kept).append(page)
        for budget, some in over.items():
            self._skipping.skip_soon(some, reason=REASON, by=budget)
        self._rest.screen(kept, let_through)
