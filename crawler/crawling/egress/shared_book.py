"""The book of this process and that of the cluster: what one learns all others hear of.

Each process goes on by its own book where Redis does not answer; what it has to tell waits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from crawling.egress.book import Book
from crawlstream.errors import FrontierFull, RedisUnavailable
from crawlstream.model.egress.book import BookAnswer, ProxyReport
from crawlstream_frontier.egress.book import BookSession

PAUSE_S = 0.5
"""Between two calls, whatever there is to tell."""
EVERY_S = 5.0
"""A call although there is nothing to tell: to hear of others."""
_WARN_EVERY_S = 30.0
_NOTHING = ProxyReport()

log = structlog.get_logger()


class SharedBook:
    """Tells what was learnt and hears of it; one call at a time."""

    def __init__(self, session: BookSession, book: Book, *, is_needed: Callable[[], bool]) -> None:
        """``is_needed``: whether there are any pools."""
        self._session = session
        self._book = book
        self._is_needed = is_needed
        self.untold = _NOTHING
        """What a call tells that is not answered yet; else it is told again, as it is."""
        self._warned_at = -_WARN_EVERY_S
        self.latest = BookAnswer()
        """The latest answer."""

    async def follow(self) -> None:
        """Tell and hear again and again."""
        while True:
            try:
                async with asyncio.timeout(EVERY_S):
                    await self._book.notes.is_waiting.wait()
            except TimeoutError:
                pass
            await self.tell()
            await asyncio.sleep(PAUSE_S)

    async def tell(self) -> None:
        """Tell all, and hear all that there is; where Redis does not answer, later."""
        while self._is_needed():
            if self.untold is _NOTHING:
                self.untold = self._book.notes.take()
            report = self.untold
            try:
                answer = await self._session.exchange(report, is_user=self._book.notes.is_user)
            except (RedisUnavailable, FrontierFull) as error:
                self._warn(error)
                return
            self.untold = _NOTHING
            self.latest = answer
            self._book.place, self._book.workers = answer.place, answer.workers
            for news in answer.news:
                self._book.hear(news)
            if not answer.is_more:
                return

    def _warn(self, error: Exception) -> None:
        now = time.monotonic()
        if now - self._warned_at >= _WARN_EVERY_S:
            self._warned_at = now
            log.warning("proxies", outcome="not_shared", error=str(error))
