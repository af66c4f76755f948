"""The browser of a worker, and its way out: started, watched and ended with the worker."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from crawling.client.client_of import Client
from crawling.egress.routes import Routes
from crawling.gateway.gateway import Gateway
from crawling.lease.holds import Holds
from crawling.links.blacklist import Blacklist
from crawling.render.browsers import Browsers
from crawling.render.cdp import BrowserGone
from crawling.render.chromium import program_of
from crawling.render.fetcher import Renderer, RenderingClient
from crawling.render.judge import Rests
from crawling.render.selftest import self_test
from crawling.robots.check import Robots
from crawlstream.boot.settings import Settings
from crawlstream.errors import ConfigError

log = structlog.get_logger()


class Rendering:
    """Of a worker that renders."""

    def __init__(
        self,
        settings: Settings,
        lane: str,
        *,
        holds: Holds,
        blacklist: Blacklist,
        robots: Callable[[], Robots],
        gateway: Callable[[], Gateway],
        routes: Routes,
    ) -> None:
        """``robots`` and ``gateway`` are made later; ConfigError where there is no browser."""
        self._settings = settings
        self._program = program_of(settings)
        self._browsers = Browsers(
            self._program,
            most_pages=settings.render_recycle,
            most_bytes=settings.render_memory_mb << 20,
        )
        self._gateway = gateway
        self.renderer = Renderer(
            browsers=self._browsers,
            gateway=gateway,
            routes=routes,
            holds=holds,
            blacklist=blacklist,
            allows=lambda page, url: robots().allows(page, url),
            settings=settings,
            lane=lane,
            rests=Rests(),
        )

    def over(self, plain: Client) -> RenderingClient:
        """A client that fetches by ``plain`` what no browser is for."""
        return self.renderer.over(plain)

    async def open(self) -> None:
        """Begin; ConfigError where the browser does not do what it must."""
        if not self._settings.render_sandbox:
            log.warning("render", outcome="no_sandbox", setting="CRAWLSTREAM_RENDER_SANDBOX=false")
        gateway = self._gateway()
        await gateway.start()
        try:
            async with self._browsers.one() as browser:
                await self_test(browser, f"http://{gateway.address}")
        except BrowserGone as error:
            hint = (
                " (its sandbox needs user namespaces: allow them, or set"
                " CRAWLSTREAM_RENDER_SANDBOX=false)"
            )
            raise ConfigError(f"{error}{hint if 'andbox' in str(error) else ''}") from None
        log.info("render", outcome="ready", browser=self._program.path)

    async def follow(self) -> None:
        """Look after the browsers, as long as there are any."""
        await self._browsers.follow()

    async def close(self) -> None:
        """End all of it; nothing may be under way."""
        await self._browsers.close()
