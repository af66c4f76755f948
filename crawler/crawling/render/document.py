"""A document in a browser: its request, and its body as bytes or as its DOM."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

from scrapy.exceptions import DownloadCancelledError, DownloadTimeoutError

from crawling.render.cdp import Pipe, Told
from crawling.render.script import DOM, wait_for
from crawling.render.visit import BrowserVisit, LoadFailed, RenderFailed, RenderOptions

_DOM_S = 5.0
"""Seconds that a script may keep the page busy before it is stopped and the DOM is read."""
_HAS_TEXT, _LOADED, _QUIET = "DOMContentLoaded", "load", "networkIdle"
"""The browser's names for stages of loading; quiet: no request for half a second."""
_PART = 1024 * 1024
UNPACKED = frozenset({"content-encoding", "content-length", "transfer-encoding"})
"""Headers that describe the body before it is decompressed."""


class Document:
    """The document of one page."""

    def __init__(self, pipe: Pipe, session: str, frame: str, visit: BrowserVisit) -> None:
        self._pipe = pipe
        self._session = session
        self._frame = frame
        self._visit = visit

    async def requested(self, head: asyncio.Future[Told], over: asyncio.Future[str]) -> Told:
        """Request the document; return its head, which ``head`` gets."""
        visit = self._visit
        referrer = next((v for n, v in visit.headers.items() if n.lower() == "referer"), "")
        named = {"referrer": referrer, "referrerPolicy": "unsafeUrl"} if referrer else {}
        navigated = self._pipe.begin_call("Page.navigate", self._session, url=visit.url, **named)
        waits = first_of(head, over, navigated)
        try:
            async with asyncio.timeout(visit.first_s):
                await waits
                if not head.done() and navigated.done() and not over.done():
                    error = navigated.result().get("errorText")
                    if error:
                        raise LoadFailed(error)
                    await first_of(head, over)
        except TimeoutError:
            raise DownloadTimeoutError(f"no response within {visit.first_s:g} s") from None
        if not head.done():
            raise RenderFailed(f"a script led to {over.result()}")
        return head.result()

    async def raw(self, request: str) -> bytes:
        """Return the decompressed bytes of a document that the browser does not show as a page."""
        call, session = self._pipe.call, self._session
        taken = await call("Fetch.takeResponseBodyAsStream", session, requestId=request)
        parts, size, is_over = [], 0, False
        try:
            async with asyncio.timeout(self._visit.ready_s):
                while not is_over:
                    read = await call("IO.read", session, handle=taken["stream"], size=_PART)
                    data: str = read["data"]
                    part = base64.b64decode(data) if read.get("base64Encoded") else data.encode()
                    parts.append(part)
                    size, is_over = size + len(part), read["eof"]
                    if size > self._visit.most_bytes:
                        raise DownloadCancelledError(f"a body over {self._visit.most_bytes} bytes")
        except TimeoutError:
            words = f"no complete response within {self._visit.ready_s:g} s"
            raise DownloadTimeoutError(words) from None
        return b"".join(parts)

    async def begin(self, head: Told) -> bytes | None:
        """Have the browser show a document; return its body in crawls that compare it."""
        if not self._visit.options.auto:
            self._pipe.send("Fetch.continueResponse", self._session, requestId=head["requestId"])
            return None
        body = await self.raw(head["requestId"])
        headers = [one for one in head["responseHeaders"] if one["name"].lower() not in UNPACKED]
        self._pipe.send(
            "Fetch.fulfillRequest",
            self._session,
            requestId=head["requestId"],
            responseCode=head["responseStatusCode"],
            responseHeaders=headers,
            body=base64.b64encode(body).decode(),
        )
        return body

    async def run(self, expression: str) -> Any:
        """Return the value of an expression, hidden from the page's scripts; None if it fails."""
        ask, session = self._pipe.begin_call, self._session
        world = await ask("Page.createIsolatedWorld", session, frameId=self._frame)
        told = await ask(
            "Runtime.evaluate",
            session,
            expression=expression,
            contextId=world["executionContextId"],
            returnByValue=True,
            awaitPromise=True,
        )
        return None if "exceptionDetails" in told else told["result"].get("value")

    async def dom(self, over: asyncio.Future[str]) -> bytes:
        """Return the DOM as UTF-8; RenderFailed, or DownloadCancelledError if it is too large.

        ``over`` raises when the page dies. It is too late for the page to lead elsewhere.
        """
        text = await self._within(_DOM_S, over)
        if text is None:
            self._pipe.send("Runtime.terminateExecution", self._session)
            text = await self._within(_DOM_S, over)
        if text is None:
            raise RenderFailed("a script of the page does not end")
        body: bytes = text.encode("utf-8", "replace")
        if len(body) > self._visit.most_bytes or text == "\0":
            raise DownloadCancelledError(f"a document over {self._visit.most_bytes} bytes")
        return body

    async def _within(self, seconds: float, over: asyncio.Future[str]) -> Any:
        reading = asyncio.ensure_future(self.run(DOM % self._visit.most_bytes))
        done = await first_of(reading, over, timeout=seconds)
        if reading not in done and over in done and not over.exception():
            # A script leads elsewhere; this is too late.
            done = await first_of(reading, timeout=seconds)
        if reading in done:
            return reading.result()
        reading.cancel()
        if over in done:
            over.result()
        return None


class LoadStage:
    """The stages of loading that a document has reached."""

    def __init__(self) -> None:
        self._stages = {name: asyncio.Event() for name in (_HAS_TEXT, _LOADED, _QUIET)}

    def reached(self, name: str) -> None:
        """Note a stage by the browser's name."""
        if name in self._stages:
            self._stages[name].set()

    async def until_ready(self, page: Document, options: RenderOptions) -> bool:
        """Wait until the page is ready; return whether the element to wait for is there."""
        is_there = True
        if options.wait_for:
            await self._stages[_HAS_TEXT].wait()
            is_there = bool(await page.run(wait_for(options.wait_for)))
        else:
            await self._stages[_LOADED].wait()
            await self._stages[_QUIET].wait()
        await asyncio.sleep(options.wait_ms / 1000)
        return is_there


async def first_of(
    *futures: asyncio.Future[Any],
    timeout: float | None = None,  # noqa: ASYNC109  an answer is due
) -> set[asyncio.Future[Any]]:
    """Return the done futures as soon as one is done or the time is up."""
    done, _ = await asyncio.wait(futures, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    return done
