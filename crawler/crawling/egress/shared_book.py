"""Synchronise the book of this process with the cluster's, so that all share their results.

While Redis does not answer, each process uses its own book, and its reports wait.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from crawling.egress.local_book import LocalBook
from crawlstream.errors import FrontierFull, RedisUnavailable
from crawlstream_frontier.egress.proxy_book import BookSession
from crawlstream_frontier.proxy_reports import BookAnswer, ProxyReport

PAUSE_S = 0.5
"""Least seconds between two calls."""
EVERY_S = 5.0
"""Seconds between calls without a report, which fetch the results of others."""
_WARN_EVERY_S = 30.0
_NOTHING = ProxyReport()

log = structlog.get_logger()


class SharedBook:
    """Sends and fetches results of proxies; one call at a time."""

    def __init__(
        self, session: BookSession, book: LocalBook, *, is_needed: Callable[[], bool]
    ) -> None:
        """``is_needed``: whether there are any pools."""
        self._session = session
        self._book = book
        self._is_needed = is_needed
        self.untold = _NOTHING
        """Report of a call without an answer yet; it is sent again unchanged if the call fails."""
        self._warned_at = -_WARN_EVERY_S
        self.latest = BookAnswer()
        """The latest answer."""

    async def follow(self) -> None:
        """Synchronise repeatedly."""
        while True:
            try:
                async with asyncio.timeout(EVERY_S):
                    await self._book.notes.is_waiting.wait()
            except TimeoutError:
                pass
            await self.exchange()
            await asyncio.sleep(PAUSE_S)

    async def exchange(self) -> None:
        """Send and fetch everything; if Redis does not answer, later."""
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
                self._book.receive(news)
            if not answer.is_more:
                return

    def _warn(self, error: Exception) -> None:
        now = time.monotonic()
        if now - self._warned_at >= _WARN_EVERY_S:
            self._warned_at = now
            log.warning("proxies", outcome="not_shared", error=str(error))
