"""The fetch lane's HTTP client by itself: real sockets, real leases, no frontier."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_network
from typing import Any

from scrapy import Request
from scrapy.http import Response

from crawling.client.http_client import HttpClient
from crawling.failures import reason_of
from crawling.lease.leases import Leases
from crawling.net.address_guard import GuardedResolver
from crawling.page.body_budget import BodyBudget
from crawling.page.page import Page
from crawling.page.scrapy_request import PAGE
from crawlstream.boot.addresses import Guard
from crawlstream.model.crawl import Entry, Profile
from crawlstream.model.url import domain_key, host_of
from support.crawler.leases import Clock, lease

LOCAL = (ip_network("127.0.0.0/8"), ip_network("::1/128"))


class Visitor:
    """Fetches one page after the other, each by a grant of its own.

    The clock of the grants stands still: none grows too old because the machine is busy.
    """

    def __init__(self, **settings: Any) -> None:
        self.budget = BodyBudget()
        self._clock = Clock(time.monotonic())
        self.leases = Leases(64, lambda: None, self._clock, body_budget=self.budget)
        self.resolver = GuardedResolver(Guard(LOCAL), None)
        usual: dict[str, Any] = {"timeout_s": 5.0, "most_bytes": 1 << 20, "verifies": None}
        self.client: Any = HttpClient(self.leases, self.resolver, **usual | settings)
        self._granted = 0
        self.latest: Page | None = None
        """The page that was fetched last."""

    def page(self, url: str, **profile: Any) -> Page:
        """A page that has just been leased."""
        self._granted += 1
        self.leases.note_answer(0, self._clock.now, 1)
        granted = lease(
            self._granted,
            entry=Entry(url=url),
            issued_at=self._clock.now,
            domain=domain_key(host_of(url)),
            profile=Profile(**profile),
        )
        return self.leases.admit(granted)

    async def fetch(
        self, url: str, *, proxy: str | None = None, tls: str | None = None, **request: Any
    ) -> Response:
        """Return the response; raise the errors of the client. ``proxy``: the pool to use."""
        return await self.fetch_page(self.page(url, proxy=proxy, tls=tls), **request)

    async def fetch_page(self, page: Page, **request: Any) -> Response:
        """Fetch a page that was leased before."""
        self.latest, url = page, page.lease.entry.url
        asked = Request(url, meta={PAGE: page, **request.pop("meta", {})}, **request)
        response: Response = await self.client.fetch(asked, page)
        return response

    async def outcome(self, url: str, **request: Any) -> int | str:
        """The status of a response, or the reason why there is none."""
        try:
            return (await self.fetch(url, **request)).status
        except Exception as error:  # noqa: BLE001  named by its reason
            return reason_of(error)


@contextmanager
def visiting(**settings: Any) -> Iterator[Visitor]:
    """A client for the length of the block."""
    visitor = Visitor(**settings)
    try:
        yield visitor
    finally:
        visitor.client.close()
