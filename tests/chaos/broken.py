"""Ways to break a law on purpose, to be caught; ``BREAK`` in the environment says how.

A crawler loads them as a user's spiders (``CRAWLSTREAM_SPIDER_MODULES=chaos.broken``);
``python -m chaos.broken`` is a redis-monitor with one of them.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from crawling.egress.signatures import Signatures
from crawling.engine import middlewares
from crawling.lease import traced
from crawling.lease.leases import Leases
from crawling.page.page import Page
from crawling.publish.publisher import Publisher
from crawling.robots.rules import RobotsRules
from crawlstream.model.crawl import Lease
from crawlstream.model.effects import ExchangeResult, Outcome, Settle
from crawlstream.model.result import CrawlResult
from crawlstream_frontier import sources
from crawlstream_frontier.worker.session import WorkerSession
from crawlstream_traces import context
from crawlstream_traces.context import Span, SpanPlace
from crawlstream_traces.sender import SpanSender
from redis_monitor.__main__ import main as redis_monitor

_publish = Publisher.result
_admit = Leases.admit
_exchange = WorkerSession.exchange
_sign = Signatures.headers
_read = sources.read
_add = SpanSender.add
_place = context.place_of_page
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
        with urllib.request.urlopen(result.url, timeout=5) as reply:  # noqa: S310  the web of the test
            reply.read()

    await asyncio.to_thread(look)
    await _publish(self, result)


def _pop(self: Leases, lease: Lease) -> Page:
    """Take a page out of the frontier for good, before anything is done with it."""
    page = _admit(self, lease)
    self.settle(page, Outcome.DONE, "2xx")
    return page


def _skip(self: Leases, lease: Lease) -> Page:
    """Skip a page without an event that names it."""
    page = _admit(self, lease)
    self.settle(page, Outcome.SKIPPED, "guard_path")
    return page


async def _children_last(
    self: WorkerSession, *, settles: Sequence[Settle] = (), **rest: Any
) -> ExchangeResult:
    """Complete a page first, and put its children then."""
    childless = [replace(settle, links=()) for settle in settles]
    answer = await _exchange(self, settles=childless, **rest)
    for settle in settles:
        await self.put_links(settle.token, settle.links)
    return answer


_signed: dict[str, Mapping[str, str]] = {}


def _sign_once(
    self: Signatures, page: Page, url: str, method: str = "GET", price: str = ""
) -> Mapping[str, str]:
    """Sign the first request to a host, and send the same signature with all others."""
    host = url.partition("://")[2].partition("/")[0]
    fresh = _sign(self, page, url, method, price)
    return _signed.setdefault(host, fresh)


def _sign_for_another(
    self: Signatures, page: Page, _url: str, method: str = "GET", price: str = ""
) -> Mapping[str, str]:
    """Sign for another host than the one that the request goes to."""
    return _sign(self, page, "http://other.example/", method, price)


def _place_anew(page_id: str, *about: Any) -> SpanPlace | None:
    """Begin another trace with each attempt at a page."""
    place = _place(page_id, *about)
    return place and SpanPlace(secrets.token_hex(16), "")


def _leave_out_first(self: SpanSender, *spans: Span) -> None:
    """Leave out the span of a page, and send those below it."""
    _add(self, *spans[1:])


def _rewrite(**changes: str) -> None:
    """Let operations of the frontier do something else, in this process."""

    def read(file: str) -> str:
        text = _read(file)
        for name, wrong in changes.items():
            text = text.replace(TEXTS[name], wrong)
        return text

    setattr(sources, "read", read)  # noqa: B010  mypy allows no assignment


TEXTS = {
    "clock": "  wall = time[1] * 1000",
    "take": "redis.call('LPOP', lot.band .. domain, portion)",
    "count": "count(c, outcome, pages)",
    "store": "redis.call('HSET', K.holds(worker), unpack(fields))",
    "find": "local token, text = tokens[i], texts[i]",
    "tell": "owe('crawl_' .. ending, c, { fields = fields, positions = positions(crawl.name),\n"
    "      seen = seen_of(crawl.occasion) })",
}
"""Replacements, each in one place of the Lua."""


async def _lose_all(self: WorkerSession, **rest: Any) -> ExchangeResult:
    """Whatever is leased goes to other hands at once, and this worker does not notice."""
    answer = await _exchange(self, **rest)
    if answer.leases:
        await self._scripts.run("retire", self._worker, b"", 0, 0)
    return answer


def _unfence() -> None:
    """Complete all pages that were ever leased, also those that another worker leases now.

    Earlier leases are kept in another database.
    """
    setattr(WorkerSession, "exchange", _lose_all)  # noqa: B010  mypy allows no assignment
    kept = "redis.call('SELECT', 1) {} redis.call('SELECT', 0)"
    store = kept.format("redis.call('HSET', worker, unpack(fields))")
    find = kept.format("text = redis.call('HGET', worker, token)")
    _rewrite(
        store=f"{TEXTS['store']} {store}",
        find=f"{TEXTS['find']} if not text then {find} end",
    )


def _end_twice() -> None:
    """A run that ends has expired, too."""
    tell = TEXTS["tell"]
    _rewrite(tell=f"{tell} {tell.replace('ending', repr('expired'))}")


BREAKS: Mapping[str, Callable[[], None]] = {
    "drop": lambda: setattr(Publisher, "result", _drop),
    "late": lambda: setattr(Publisher, "result", _publish_late),
    "twice": lambda: setattr(Publisher, "result", _publish_twice),
    "rename": lambda: setattr(Publisher, "result", _rename),
    "look-twice": lambda: setattr(Publisher, "result", _look_twice),
    "pop": lambda: setattr(Leases, "admit", _pop),
    "skip": lambda: setattr(Leases, "admit", _skip),
    "children-last": lambda: setattr(WorkerSession, "exchange", _children_last),
    # The worker's own clock, five seconds fast, counts.
    "clock": lambda: _rewrite(clock="  wall = time[1] * 1000 + 5000"),
    # Leased pages stay in their queue, for others to lease.
    "share": lambda: _rewrite(take="redis.call('LRANGE', lot.band .. domain, 0, portion - 1)"),
    "unfence": _unfence,
    "uncounted": lambda: _rewrite(count=""),
    "end-twice": _end_twice,
    "sign-once": lambda: setattr(Signatures, "headers", _sign_once),
    "sign-another": lambda: setattr(Signatures, "headers", _sign_for_another),
    "keep-body": lambda: setattr(middlewares, "ban_of", lambda *_: None),
    "keep-reserved": lambda: setattr(middlewares, "rights_of", lambda *_: None),
    "pass-over-paths": lambda: setattr(RobotsRules, "says_of", lambda *_: None),
    "trace-anew": lambda: setattr(traced, "place_of_page", _place_anew),
    "trace-no-page": lambda: setattr(SpanSender, "add", _leave_out_first),
    "trace-nothing": lambda: setattr(SpanSender, "add", lambda *_: None),
    "sign-none": lambda: setattr(Signatures, "lines", lambda *_: []),
}
"""Broken processes by law: each does one thing that it must not do."""

if name := os.environ.get("BREAK"):
    BREAKS[name]()
if __name__ == "__main__":
    sys.exit(redis_monitor([]))
