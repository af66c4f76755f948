"""Work and waiting for files of sites, within the grants of the pages that need them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from crawling.lease.leases import START_BY_S
from crawling.page.page import Page

T = TypeVar("T")


async def beside(page: Page, work: Callable[[], T]) -> T:
    """Do something in a thread, at the page's expense.

    The flight recorder cannot note it, for it notes one page at a time; what a file may be is
    bounded, so that it ends no process.
    """

    def timed() -> tuple[T, float]:
        began = time.thread_time()
        return work(), time.thread_time() - began

    answer, took_s = await asyncio.to_thread(timed)
    page.cpu_s += took_s
    return answer


def left_s(page: Page) -> float:
    """Seconds until a page's grant runs out."""
    return page.lease.issued_at + START_BY_S - time.monotonic()


async def within_grant(arrived: asyncio.Event, pages: Sequence[Page]) -> None:
    """Wait for an answer as long as the grants of the waiting pages last."""
    if pages:
        ends_at = min(page.lease.issued_at for page in pages) + START_BY_S * 0.8
        try:
            async with asyncio.timeout(max(ends_at - time.monotonic(), 0)):
                await arrived.wait()
        except TimeoutError:
            pass
