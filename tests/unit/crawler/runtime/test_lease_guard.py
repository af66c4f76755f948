"""Pages that the waste guard judges when they are leased, and those that it lets pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from crawling.page.page import Page
from crawling.response.outcome import Outcomes
from crawling.runtime.lease_guard import LeaseGuard
from crawling.waste.decisions import LinkDecision
from crawlstream.model.crawl import CrawlKey, Entry, Profile
from crawlstream.model.effects import UNSENT
from crawlstream.model.web.guard_mode import GuardMode
from crawlstream_frontier.waste.last_band import last_of
from support.crawler.leases import lease

URL = "http://a.example/c?sort=1"
ON = Profile(guard="on")


class Ends:
    """Ends of pages: a stand-in for the parts of a worker that end them."""

    def __init__(self, decision: LinkDecision) -> None:
        self.decision = decision
        self.skipped: list[tuple[Page, str, str]] = []
        self.last: list[tuple[Page, int]] = []
        self.passed: list[Page] = []
        self.spent: list[Page] = []

    def decision_on(self, _page: Page, _rules: object) -> LinkDecision:
        """Return the same decision on all pages."""
        return self.decision

    def skip_soon(self, pages: Iterable[Page], *, reason: str, family: str) -> None:
        """Note pages that are skipped."""
        self.skipped += [(page, reason, family) for page in pages]

    def release(self, page: Page, *, sent_ms: int, priority: int) -> None:
        """Note a page that is put last, and that it has used no grant."""
        assert sent_ms == UNSENT
        self.last.append((page, priority))

    def screen(self, pages: Iterable[Page], let_through: Callable[[Page], None]) -> None:
        """Let pages pass."""
        for page in pages:
            let_through(page)

    def admit(self, page: Page, let_through: Callable[[Page], None]) -> None:
        """Note a page that could be spent on a made-up neighbour."""
        self.spent.append(page)
        let_through(page)

    def guard(self, mode: GuardMode = GuardMode.OFF, most: GuardMode = GuardMode.ON) -> LeaseGuard:
        """Return a guard for a worker with these settings."""
        outcomes = SimpleNamespace(
            settings=SimpleNamespace(
                guard=mode, guard_most=most, keep_parameters=(), drop_parameters=()
            ),
            endings=SimpleNamespace(skipping=self),
            leases=self,
        )
        return LeaseGuard(self, self, cast("Outcomes", outcomes), self)


def _page(entry: dict[str, Any] | None = None, **of_lease: Any) -> Page:
    values: dict[str, Any] = {"url": URL, "parent_url": "http://a.example/", **(entry or {})}
    return Page(lease(entry=Entry(**values), **{"profile": ON, **of_lease}), "id")


def _refused() -> Ends:
    return Ends(LinkDecision(URL, refused="guard_parameter", family="?s<rt"))


def test_a_refused_page_is_skipped() -> None:
    """The family is named as it is safe to show."""
    ends, page = _refused(), _page()
    ends.guard().screen([page], ends.passed.append)
    assert ends.skipped == [(page, "guard_parameter", "?s%3Crt")]
    assert not ends.passed


@pytest.mark.parametrize(
    ("entry", "of_lease"),
    [
        ({"origin": "in-0-1"}, {}),
        ({"redirect_urls": ("http://a.example/",)}, {}),
        ({"salt": "v 1"}, {}),
        ({"callback": "parse_item"}, {}),
        ({"meta": {"a": 1}}, {}),
        ({"method": "POST"}, {}),
        ({}, {"is_marked": True}),
        ({}, {"profile": Profile(guard="watch")}),
        ({}, {"profile": Profile()}),
        ({}, {"profile": Profile(guard="on", headers={"A": "b"})}),
    ],
)
def test_other_pages_pass(entry: dict[str, Any], of_lease: dict[str, Any]) -> None:
    """Seeds, targets of redirects, pages that were tried before, and those of other crawls."""
    ends, page = _refused(), _page(entry, **of_lease)
    ends.guard().screen([page], ends.passed.append)
    assert (ends.passed, ends.skipped) == ([page], [])
    assert not ends.spent


def test_the_operator_chooses_the_mode_of_crawls_that_do_not() -> None:
    """A crawl gets the highest mode that is allowed, at most."""
    for mode, most, profile in [
        (GuardMode.ON, GuardMode.ON, Profile()),
        (GuardMode.OFF, GuardMode.ON, ON),
    ]:
        ends = _refused()
        ends.guard(mode, most).screen([_page(profile=profile)], ends.passed.append)
        assert ends.skipped
    ends = _refused()
    ends.guard(GuardMode.ON, GuardMode.WATCH).screen([_page()], ends.passed.append)
    assert not ends.skipped


def test_a_page_is_put_last_once() -> None:
    """Fetches a page that comes a second time from the nearest band of a full domain."""
    ends = Ends(LinkDecision(URL, is_last=True))
    guard, page = ends.guard(), _page(priority=-20)
    for _ in range(2):
        guard.screen([page], ends.passed.append)
    assert (ends.last, ends.passed) == ([(page, last_of(-20))], [page])


def test_a_page_of_the_last_band_passes() -> None:
    """Lets a page of the last band through, because nothing else of its domain waits."""
    ends = Ends(LinkDecision(URL, is_last=True))
    page = _page(priority=last_of(0))
    ends.guard().screen([page], ends.passed.append)
    assert (ends.last, ends.passed, ends.spent) == ([], [page], [page])


def test_pages_of_crawls_by_sitemaps_are_put_last_at_most() -> None:
    """Their site may have named them itself."""
    listing = {"crawl": CrawlKey("sitemap", "app", "crawl")}
    for of_lease in (listing, {"profile": Profile(guard="on", sitemaps="also")}):
        ends, page = _refused(), _page(**of_lease)
        ends.guard().screen([page], ends.passed.append)
        assert (ends.skipped, [each for each, _ in ends.last]) == ([], [page])
