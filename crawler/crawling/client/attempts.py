"""A page of a pool: through one proxy, and through the next where the first has failed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from scrapy.http import Response

from crawling.egress.blame import Blame
from crawling.egress.route import Route
from crawling.egress.routes import TRY_AGAIN_MS, NoPlace, NoProxy, Routes
from crawling.failures import PathFailed, ProxyTrouble, TransferFailed
from crawling.page.page import Page
from crawlstream.model.egress.pools import Pool

Send = Callable[[Route | None], Awaitable[Response]]
"""Sends a page by a route (None: directly); ProxyTrouble says whose failure it was."""


class Attempts:
    """Chooses proxies for a page, and reports their results."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes

    async def run(self, pool: Pool, page: Page, send: Send) -> Response:
        """Send it through one proxy or another.

        NoProxy if none will do, PathFailed if that has been so for too long or no way came about,
        TransferFailed if the site is to blame.
        """
        try:
            return await self._try(pool, page, send)
        except NoPlace:
            raise
        except NoProxy as error:
            if not await self._routes.patience.is_over(pool.name, page.lease.domain):
                raise
            words = f"{error}, for longer than MAX_WAIT"
        raise PathFailed("no_proxy", words, is_silent=False)

    async def _try(self, pool: Pool, page: Page, send: Send) -> Response:
        for route in self._routes.choices(pool, page):
            if route is None:
                return await send(None)
            try:
                with self._routes.using(route, page):
                    response = await send(route)
            except ProxyTrouble as trouble:
                self._tell(route, page, trouble)
            else:
                self._routes.answered(route, page, response.status)
                return response
        raise NoProxy(f"pool {pool.name}: nothing was chosen", TRY_AGAIN_MS)

    def _tell(self, route: Route, page: Page, trouble: ProxyTrouble) -> None:
        """Note whose failure it was; return if another proxy may be tried, raise if not."""
        is_silent = self._routes.failed(route, page, trouble.blame)
        words = f"proxy {route.proxy.id}: {trouble}"
        if trouble.blame.is_proxys:
            if not page.phase.is_unsent:
                raise NoProxy(words, TRY_AGAIN_MS)
            return
        if trouble.blame is Blame.TLS:
            raise TransferFailed(trouble.reason, words)
        raise PathFailed(trouble.reason, words, is_silent=is_silent)
