"""Leased pages of domains that have spent a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from crawling.page.page import Page
from crawling.publish.skipping import Skipping
from crawling.runtime.domain_budgets import DomainBudgets
from support.crawler.leases import lease


class Ends:
    """Stand-in for the parts of a worker that take pages further."""

    def __init__(self) -> None:
        self.skipped: list[tuple[list[str], str, str]] = []
        self.passed: list[str] = []

    def skip_soon(self, pages: Iterable[Page], *, reason: str, by: str) -> None:
        """Note pages that are skipped."""
        self.skipped.append(([page.id for page in pages], reason, by))

    def screen(self, pages: Iterable[Page], _let_through: Callable[[Page], None]) -> None:
        """Note pages that pass."""
        self.passed += [page.id for page in pages]


def test_pages_of_a_domain_with_a_spent_budget_are_skipped() -> None:
    """By the budget; one that was tried before may have a result, and is fetched."""
    ends = Ends()
    budgets: dict[str, dict[str, Any]] = {
        "a": {},
        "b": {"spent_budget": "domain_max_bytes"},
        "c": {"spent_budget": "domain_max_failed_share"},
        "d": {"spent_budget": "domain_max_bytes", "is_marked": True},
        "e": {"spent_budget": "domain_max_bytes"},
    }
    pages = [Page(lease(**of_lease), name) for name, of_lease in budgets.items()]
    DomainBudgets(ends, cast("Skipping", ends)).screen(pages, lambda _page: None)
    assert ends.passed == ["a", "d"]
    assert ends.skipped == [
        (["b", "e"], "domain_budget", "domain_max_bytes"),
        (["c"], "domain_budget", "domain_max_failed_share"),
    ]
