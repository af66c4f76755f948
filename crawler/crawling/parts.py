"""The parts of a worker, found by its crawler: Scrapy passes only that to its components."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar
from weakref import WeakKeyDictionary

from scrapy import Request
from scrapy.http import Response

from crawling.egress.payments import Payments
from crawling.egress.routes import Routes
from crawling.egress.signatures import Signatures
from crawling.lease.leases import Leases
from crawling.links.blacklist import Blacklist
from crawling.links.traps import Traps
from crawling.page.body_budget import BodyBudget
from crawling.page.flight_recorder import FlightRecorder
from crawling.page.page import Page
from crawling.publish.completion import Completion
from crawling.publish.deadlines import Deadlines
from crawling.publish.publisher import Publisher
from crawling.response.outcome import Outcomes
from crawlstream.model.result import CrawlResult

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The parts of one worker, each created once."""

    leases: Leases
    body_budget: BodyBudget
    recorder: FlightRecorder
    publisher: Publisher
    endings: Completion
    outcomes: Outcomes
    traps: Traps
    blacklist: Blacklist
    routes: Routes
    signatures: Signatures | None
    """Signs all requests; None: they leave unsigned."""
    payments: Payments | None
    """Pays for pages of crawls with a purse; None: nothing is paid."""
    renders: bool
    """True if a browser fetches the pages."""
    fetch_by_proxy: Callable[[Request, Page], Awaitable[Response]]
    """Fetches a page that Scrapy's client cannot (proxies, TLS profiles, browsers), also for
    Scrapy's engine."""
    sitemaps_of: Callable[[str], Sequence[str] | None]
    """Sitemaps that robots.txt of a URL's origin names; None: it is not at hand."""
    bring_requisites: Callable[[Page, CrawlResult], Awaitable[CrawlResult]]
    """Publishes the requisites of a result before it, for crawls that archive them."""
    requests: Callable[[], AsyncIterator[Request]]
    """Requests for Scrapy, one for each page that takes its engine."""

    _by_crawler: ClassVar[WeakKeyDictionary[Crawler, Parts]] = WeakKeyDictionary()

    @property
    def deadlines(self) -> Deadlines:
        """The deadlines of its pages."""
        return self.endings.deadlines

    @classmethod
    def of(cls, crawler: Crawler) -> Parts:
        """Return the parts of a crawler's worker; RuntimeError if it has none."""
        parts = cls._by_crawler.get(crawler)
        if parts is None:
            raise RuntimeError("the extension crawling.runtime.worker.Worker is not enabled")
        return parts

    def belong_to(self, crawler: Crawler) -> None:
        """Make :meth:`of` return these parts for a crawler."""
        self._by_crawler[crawler] = self
