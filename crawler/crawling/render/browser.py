"""A running browser: it makes pages, each in a context of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import structlog

from crawling.render.cdp import BrowserGone, CommandFailed, Pipe
from crawling.render.chromium import BrowserProgram, Ends, RunningBrowser

_START_S = 30.0
_ALIVE_S = 10.0
"""A browser without an answer for this many seconds is dead, even if its process runs."""

log = structlog.get_logger()


class Browser:
    """A browser process and the number of its pages."""

    def __init__(self, running: RunningBrowser, ends: Ends) -> None:
        self.running = running
        self.pipe = pipe = Pipe(ends.reader, ends.writing.write)
        self.pages = 0
        """Number of pages that it has made."""
        self.under_way = 0
        self.camera = asyncio.Lock()
        """Has the browser take one picture at a time, each of which needs some 100 MiB."""
        self._ends = ends
        self._listening = asyncio.ensure_future(pipe.run())

    @classmethod
    async def start(cls, program: BrowserProgram) -> Browser:
        """Start a browser; BrowserGone with the end of its output."""
        running = RunningBrowser(program)
        browser = cls(running, await Ends.of(running))
        try:
            await browser.pipe.call("Browser.getVersion", within_s=_START_S)
        except BrowserGone as error:
            words = running.last_words()
            await browser.end()
            raise BrowserGone(f"{program.path} did not start: {error}. {words}") from None
        except BaseException:
            await browser.end()
            raise
        return browser

    @property
    def is_gone(self) -> bool:
        """Return whether it can make no more pages."""
        return self.pipe.is_gone or not self.running.is_alive

    @asynccontextmanager
    async def context(self, proxy: str) -> AsyncIterator[str]:
        """Open an empty context, whose requests leave through ``proxy``; close it at the end."""
        made: Any = await self.pipe.call(
            "Target.createBrowserContext",
            disposeOnDetach=True,
            proxyServer=proxy,
            proxyBypassList="<-loopback>",
        )
        context: str = made["browserContextId"]
        self.under_way += 1
        self.pages += 1
        try:
            self.pipe.send("Browser.setDownloadBehavior", behavior="deny", browserContextId=context)
            yield context
        finally:
            self.under_way -= 1
            closed = self.pipe.begin_call("Target.disposeBrowserContext", browserContextId=context)
            await asyncio.shield(asyncio.ensure_future(self._closed(closed)))

    async def _closed(self, answer: asyncio.Future[Any]) -> None:
        """Wait until a context is closed; a browser that cannot close it is dead."""
        try:
            async with asyncio.timeout(_ALIVE_S):
                await answer
        except CommandFailed:
            pass
        except (BrowserGone, TimeoutError):
            self.pipe.end()

    async def is_well(self) -> bool:
        """Return whether the browser answers; end the pipe of one that does not."""
        try:
            await self.pipe.call("Browser.getVersion", within_s=_ALIVE_S)
        except (BrowserGone, CommandFailed):
            self.pipe.end()
            return False
        return self.running.is_alive

    async def end(self) -> None:
        """Kill the browser and all its processes."""
        self.pipe.end()
        self._listening.cancel()
        self._ends.close()
        await asyncio.to_thread(self.running.end)
