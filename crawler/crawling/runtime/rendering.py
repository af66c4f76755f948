"""The browser of a worker and its gateway: started, watched and ended with the worker."""

from __future__ import annotations

import structlog

from crawling.render.browsers import Browsers
from crawling.render.cdp import BrowserGone
from crawling.render.chromium import program_of
from crawling.render.judge import Rests
from crawling.render.rendering_client import Renderer
from crawling.render.selftest import self_test
from crawling.runtime.assembly import Assembly
from crawlstream.boot.settings import Settings
from crawlstream.errors import ConfigError

log = structlog.get_logger()


class Rendering:
    """The browsers of a worker that renders."""

    def __init__(self, settings: Settings, lane: str, made: Assembly) -> None:
        """Raise ConfigError where there is no browser."""
        self._settings = settings
        self._program = program_of(settings)
        self._way, parts = made.way, made.parts
        self._browsers = Browsers(
            self._program,
            most_pages=settings.render_recycle,
            most_bytes=settings.render_memory_mb << 20,
        )
        self._renderer = Renderer(
            browsers=self._browsers,
            gateway=lambda: made.way.gateway,
            routes=parts.routes,
            leases=parts.leases,
            blacklist=parts.blacklist,
            redirects=parts.outcomes.redirects,
            allows=made.robots.allows,
            settings=settings,
            lane=lane,
            rests=Rests(),
            signatures=parts.signatures,
        )
        made.way.render_by(self._renderer.over)

    async def open(self) -> None:
        """Start gateway and browser; ConfigError if the browser fails its self-test."""
        if not self._settings.render_sandbox:
            log.warning("render", outcome="no_sandbox", setting="CRAWLSTREAM_RENDER_SANDBOX=false")
        gateway = self._way.gateway
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
        """Examine and replace the browsers until cancelled."""
        await self._browsers.follow()

    async def close(self) -> None:
        """End the browsers; no page may be in flight."""
        await self._browsers.close()
