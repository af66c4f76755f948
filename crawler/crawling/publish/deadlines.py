"""Limits how long a user's code may wait.

A callback, a pipeline or a middleware may wait for something that never comes. The frontier takes
the page back after ten minutes and leases it to another worker, which would wait as well; and here
a coroutine and a body would remain each time. So each stretch of a page that may run code of the
user is cancelled shortly before that, or once another worker has the page, and the page counts as
one that timed out: retried like a download, then failed as ``callback_timeout``.

What blocks the process instead of waiting is the flight recorder's affair.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, TypeVar

import structlog
from scrapy import Request, Spider
from scrapy.http import Response

from crawling.failures import PageTimeout
from crawling.page.page import Page

LONGEST_S = 540.0
"""From the lease of a page to its end: less than the frontier's MAX_HOLD_MS."""

T = TypeVar("T")

log = structlog.get_logger()

page_at_hand: ContextVar[Page | None] = ContextVar("page_at_hand", default=None)
"""The page whose response Scrapy hands to spider and pipelines, in the tasks that do so."""


class Deadlines:
    """The stretches in progress, and the end of those that take too long."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._under_way: set[_Stretch] = set()

    def stretch(self, page: Page) -> _Stretch:
        """For the length of the block the task may be cancelled: PageTimeout."""
        return _Stretch(page, self._under_way)

    async def steps(self, page: Page, items: AsyncIterator[T]) -> AsyncIterator[T]:
        """Yield the same items; producing each is a stretch."""
        while True:
            with self.stretch(page):
                try:
                    item = await anext(items)
                except StopAsyncIteration:
                    return
            yield item

    def bind(self, request: Request, page: Page, spider: Spider) -> None:
        """Make a stretch of the request's callback if that is a coroutine; ``steps`` has others."""
        own: Any = request.callback
        callback: Any = own or getattr(spider, "parse", None)
        if not inspect.iscoroutinefunction(callback):
            return

        async def bounded(response: Response, **named: Any) -> Any:
            restore_callback(response, own)
            with self.stretch(page):
                return await callback(response, **named)

        request.callback = bounded

    def enforce(self) -> None:
        """Cancel what is over its time."""
        for each in list(self._under_way):
            age_s = self._clock() - each.page.admitted_at
            if not each.page.publishing and (age_s > LONGEST_S or not each.page.is_open):
                url = each.page.lease.entry.url
                log.warning("cancel", url=url, age_s=round(age_s), is_open=each.page.is_open)
                each.end()


@contextmanager
def publishing(page: Page) -> Iterator[None]:
    """Let the page wait for a service of crawlstream in the block, however long it takes."""
    page.publishing += 1
    try:
        yield
    finally:
        page.publishing -= 1


def restore_callback(response: Response, own: Any) -> None:
    """Show a callback its request as it was made: it may copy it, or ask for what it names."""
    if response.request is not None:
        response.request.callback = own


class _Stretch:
    """A block of a task; as a context manager it turns its cancellation into an error."""

    __slots__ = ("_among", "_is_ended", "_task", "page")

    def __init__(self, page: Page, among: set[_Stretch]) -> None:
        self.page = page
        self._among = among
        self._is_ended = False
        self._task: asyncio.Task[Any] | None = None

    def __enter__(self) -> None:
        self._task = asyncio.current_task()
        self._among.add(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._among.discard(self)
        if self._is_ended and self._task is not None:
            # A cancellation for another reason takes precedence.
            left = self._task.uncancel()
            if kind is not None and issubclass(kind, asyncio.CancelledError) and not left:
                raise PageTimeout(
                    f"not completed within {LONGEST_S:.0f} s after it was leased"
                ) from error

    def end(self) -> None:
        """Cancel the task, once: what swallows that goes on."""
        if self._task is not None and not self._is_ended:
            self._is_ended = True
            self._task.cancel()
