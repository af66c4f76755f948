"""Ways to break a law on purpose, to be caught; loaded as a user's spiders are.

``CRAWLSTREAM_SPIDER_MODULES=chaos.broken`` in a crawler's environment, and ``BREAK`` says how.
"""

from __future__ import annotations

import asyncio
import os
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import replace

from crawling.holds import Holds
from crawling.pages import Page
from crawling.publish import Publisher
from crawlstream.frontier import scripts
from crawlstream.model.crawl import Hold
from crawlstream.model.effects import Outcome
from crawlstream.model.result import CrawlResult

_publish = Publisher.result
_admit = Holds.admit
_source_of = scripts.source_of
_late: set[asyncio.Task[None]] = set()


async def _drop(self: Publisher, result: CrawlResult) -> None:
    """Say that it was published."""


async def _publish_late(self: Publisher, result: CrawlResult) -> None:
    """Do not wait for Kafka."""

    async def publish() -> None:
        await asyncio.sleep(2)
        await _publish(self, result)

    task = asyncio.create_task(publish())
    _late.add(task)
    task.add_done_callback(_late.discard)


async def _publish_twice(self: Publisher, result: CrawlResult) -> None:
    """Once more for good luck."""
    await _publish(self, result)
    await _publish(self, result)


async def _rename(self: Publisher, result: CrawlResult) -> None:
    """Every attempt is another page."""
    await _publish(self, result)
    await _publish(self, replace(result, id=f"again-{result.id}"))


async def _look_twice(self: Publisher, result: CrawlResult) -> None:
    """Ask the site behind the frontier's back."""

    def look() -> None:
        with urllib.request.urlopen(result.url, timeout=5) as reply:  # noqa: S310  a web of ours
            reply.read()

    await asyncio.to_thread(look)
    await _publish(self, result)


def _pop(self: Holds, hold: Hold) -> Page:
    """Take a page out of the frontier for good, before anything is done with it."""
    page = _admit(self, hold)
    self.settle(page, Outcome.DONE, "2xx")
    return page


def _hasten(operation: str) -> str:
    """Let the worker's own clock, five seconds fast, count."""
    own = "wall = time[1] * 1000"
    source = _source_of(operation)
    assert own in source
    return source.replace(own, f"{own} + 5000")


BREAKS: Mapping[str, Callable[[], None]] = {
    "drop": lambda: setattr(Publisher, "result", _drop),
    "late": lambda: setattr(Publisher, "result", _publish_late),
    "twice": lambda: setattr(Publisher, "result", _publish_twice),
    "rename": lambda: setattr(Publisher, "result", _rename),
    "look-twice": lambda: setattr(Publisher, "result", _look_twice),
    "pop": lambda: setattr(Holds, "admit", _pop),
    "clock": lambda: setattr(scripts, "source_of", _hasten),
}
"""By name; each replaces one thing that a crawler does by another that it must not do."""

if name := os.environ.get("BREAK"):
    BREAKS[name]()
