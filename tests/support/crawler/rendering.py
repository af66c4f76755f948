"""A crawler's browser by itself: real sockets, real leases, the real way out; no frontier."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from scrapy import Request
from scrapy.http import Response

from crawling.egress.routes import Routes
from crawling.egress.signatures import Signatures
from crawling.failures import reason_of
from crawling.gateway.gateway import Gateway
from crawling.links.blacklist import Blacklist
from crawling.links.scope import OF_THE_CRAWL
from crawling.page.page import Page
from crawling.page.scrapy_request import to_scrapy
from crawling.render.browsers import Browsers
from crawling.render.chromium import program_of
from crawling.render.judge import Rests
from crawling.render.rendering_client import Renderer
from crawling.spiders.base import ClusterSpider
from crawlstream.boot.settings import load_settings
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from support.crawler.visitor import Visitor

RULE = ThrottleRule(hits=1000, window_s=1)


class _Table(Blacklist):
    """Rules that a test sets, instead of looking for them in Redis."""

    def __init__(self, table: ThrottleTable) -> None:
        self.table = table


class RenderBench(Visitor):
    """Renders one page after the other, each by a grant of its own."""

    def __init__(self, routes: Routes | None = None, **settings: Any) -> None:
        super().__init__()
        self.settings = load_settings(render=True, **settings)
        self.forbidden: set[str] = set()
        """URLs that robots.txt forbids."""
        self.ahead_s = 0.0
        """How far what sites rest by is ahead of the clock."""
        self.gateway = Gateway(self.leases, self.resolver, routes)
        self.blacklist = _Table(ThrottleTable(default=RULE))
        self.browsers = Browsers(
            program_of(self.settings),
            most_pages=self.settings.render_recycle,
            most_bytes=self.settings.render_memory_mb << 20,
        )
        renderer = Renderer(
            browsers=self.browsers,
            gateway=lambda: self.gateway,
            routes=routes,
            leases=self.leases,
            blacklist=self.blacklist,
            redirects=OF_THE_CRAWL,
            allows=self._allows,
            settings=self.settings,
            lane="link+render",
            rests=Rests(lambda: time.monotonic() + self.ahead_s),
            signatures=Signatures.of(self.settings, "link"),
        )
        self.client: Any = renderer.over(self.client)

    async def _allows(self, _page: Page, url: str) -> bool:
        return url not in self.forbidden

    def rule(self, **changes: Any) -> None:
        """Let this rule hold for all sites."""
        self.blacklist.table = ThrottleTable(
            default=ThrottleRule(**{"hits": 1000, "window_s": 1, **changes})
        )

    async def render(self, url: str, **profile: Any) -> Response:
        """Return the response of a page of a crawl with this profile; raise the client's errors."""
        wish = profile.pop("render", {})
        page = self.latest = self.page(url, render=wish, **profile)
        came: Response = await self.client.fetch(self.request(page), page)
        return came

    def request(self, page: Page) -> Request:
        """Return the request of a page."""
        return to_scrapy(page, ClusterSpider(name="bench"), lambda _failure: None)

    async def reason(self, url: str, **profile: Any) -> str:
        """Why a page does not come."""
        try:
            came = await self.render(url, **profile)
        except Exception as error:  # noqa: BLE001  named by its reason
            return reason_of(error)
        return f"status {came.status}"

    @property
    def told(self) -> Any:
        """Return the field `render` in the result of the latest page."""
        assert self.latest is not None
        return self.latest.render


@asynccontextmanager
async def rendering(routes: Routes | None = None, **settings: Any) -> AsyncIterator[RenderBench]:
    """A browser for the length of the block; nothing of it stays. ``routes``: those of pools."""
    bench = RenderBench(routes, **settings)
    await bench.gateway.start()
    async with bench.browsers.one():
        pass  # A grant does not last until a browser has started.
    try:
        yield bench
    finally:
        await bench.browsers.close()
        bench.client.close()
        bench.gateway.close()
