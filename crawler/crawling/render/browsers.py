"""A browser that is always ready: old and failing browsers are replaced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from crawling.metrics import BROWSER_RESTARTS, RENDER_MEMORY
from crawling.render.browser import Browser
from crawling.render.chromium import BrowserProgram

LOOK_EVERY_S = 5.0

log = structlog.get_logger()


class Browsers:
    """The browser that takes new pages, and browsers that only finish theirs."""

    def __init__(self, program: BrowserProgram, *, most_pages: int, most_bytes: int) -> None:
        """Replace a browser after ``most_pages``, or when it uses more than ``most_bytes``."""
        self._program = program
        self._most_pages = most_pages
        self._most_bytes = most_bytes
        self._current: Browser | None = None
        self._leaving: set[Browser] = set()
        self._starting = asyncio.Lock()
        self._look_now = asyncio.Event()

    @asynccontextmanager
    async def one(self) -> AsyncIterator[Browser]:
        """Lend a browser to a page; BrowserGone where none starts."""
        browser = await self._ready()
        try:
            yield browser
        finally:
            if browser.is_gone or browser.pages >= self._most_pages or browser in self._leaving:
                self._look_now.set()

    async def _ready(self) -> Browser:
        async with self._starting:
            browser = self._current
            if browser is not None and (reason := self._why_not(browser)):
                self._retire(browser, reason)
                browser = None
            if browser is None:
                browser = self._current = await Browser.start(self._program)
            return browser

    def _why_not(self, browser: Browser) -> str:
        if browser.is_gone:
            return "gone"
        return "pages" if browser.pages >= self._most_pages else ""

    def _retire(self, browser: Browser, reason: str) -> None:
        """Give a browser no more pages; it ends when its pages have ended."""
        BROWSER_RESTARTS.labels(reason).inc()
        words = browser.running.last_words() if reason == "gone" else ""
        pages = browser.pages
        log.info("render", outcome="browser_replaced", reason=reason, pages=pages, said=words)
        self._leaving.add(browser)
        if self._current is browser:
            self._current = None
        self._look_now.set()

    async def follow(self) -> None:
        """Examine the browsers every ``LOOK_EVERY_S`` and end the retired ones."""
        while True:
            self._look_now.clear()
            try:
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._look_now.wait()
            except TimeoutError:
                await self._examine()
            await self._end_idle()

    async def _examine(self) -> None:
        browser = self._current
        if browser is None:
            return
        memory = await asyncio.to_thread(browser.running.memory_bytes)
        RENDER_MEMORY.set(memory)
        is_well = await browser.is_well()
        if self._current is not browser:
            return
        if not is_well:
            self._retire(browser, "gone")
        elif memory > self._most_bytes:
            self._retire(browser, "memory")
        for other in tuple(self._leaving):
            if not other.is_gone:
                await other.is_well()

    async def _end_idle(self) -> None:
        for browser in [each for each in self._leaving if each.is_gone or not each.under_way]:
            self._leaving.discard(browser)
            await browser.end()

    async def close(self) -> None:
        """Kill all browsers."""
        browsers = [*self._leaving, *([self._current] if self._current else [])]
        self._leaving.clear()
        self._current = None
        for browser in browsers:
            await browser.end()
