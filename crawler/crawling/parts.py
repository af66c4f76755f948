"""What a worker is made of, for those that Scrapy makes: it hands them its crawler and no more."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar
from weakref import WeakKeyDictionary

from scrapy import Request
from scrapy.http import Response

from crawling.egress.routes import Routes
from crawling.lease.holds import Holds
from crawling.links.blacklist import Blacklist
from crawling.links.traps import Traps
from crawling.page.body_budget import BodyBudget
from crawling.page.flight_recorder import Recorder
from crawling.page.page import Page
from crawling.publish.completion import Endings
from crawling.publish.deadlines import Deadlines
from crawling.publish.publisher import Publisher
from crawling.response.outcome import Outcomes

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The collaborators of one worker, each made once."""

    holds: Holds
    body_budget: BodyBudget
    recorder: Recorder
    publisher: Publisher
    deadlines: Deadlines
    endings: Endings
    outcomes: Outcomes
    traps: Traps
    blacklist: Blacklist
    routes: Routes
    renders: bool
    """True if pages are fetched by a browser."""
    fetch_by_proxy: Callable[[Request, Page], Awaitable[Response]]
    """The way of a page that Scrapy's client cannot fetch (proxies, TLS profiles, browsers), also
    where Scrapy's engine has it."""
    requests: Callable[[], AsyncIterator[Request]]
    """Every page that may be fetched, as a request for Scrapy."""

    _by_crawler: ClassVar[WeakKeyDictionary[Crawler, Parts]] = WeakKeyDictionary()

    @classmethod
    def of(cls, crawler: Crawler) -> Parts:
        """The parts of a crawler's worker; RuntimeError where it has none."""
        parts = cls._by_crawler.get(crawler)
        if parts is None:
            raise RuntimeError("the extension crawling.runtime.worker.Worker is not enabled")
        return parts

    def belong_to(self, crawler: Crawler) -> None:
        """Let :meth:`of` find these."""
        self._by_crawler[crawler] = self
