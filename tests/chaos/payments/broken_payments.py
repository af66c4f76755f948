"""Ways to pay wrongly, on purpose, to be caught; ``BREAK`` in the environment says how.

A crawler loads them as a user's spiders, by ``CRAWLSTREAM_SPIDER_MODULES``.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping

from scrapy import Request
from scrapy.http import Response

from crawling.egress.payments import Payments
from crawling.egress.signatures import Signatures
from crawling.page.page import Page, Phase
from crawlstream.model.words.price import Price
from crawlstream_frontier import sources
from crawlstream_frontier.egress.purses import Buyer, Purses

_reserve, _settle, _pay, _lines = Purses.reserve, Purses.settle, Payments.pay, Signatures.lines
_read = sources.read
_late: set[asyncio.Task[None]] = set()
_LATE_S = 2.0

Answer = tuple[str, Price | None]


async def _reserve_nothing(self: Purses, buyer: Buyer, sending: str) -> Answer:
    """Look up the price, and let go of the money at once."""
    why, price = await _reserve(self, buyer, sending)
    if price:
        await _settle(self, buyer.purse, buyer.origin, sending, price=price, charged=0)
    return why, price


async def _reserve_late(self: Purses, buyer: Buyer, sending: str) -> Answer:
    """Reserve when the site has long charged."""
    why, price = await _reserve_nothing(self, buyer, sending)

    async def reserve() -> None:
        await asyncio.sleep(_LATE_S)
        if price and (await _reserve(self, buyer, sending))[1]:
            where = buyer.purse, buyer.origin, sending
            await _settle(self, *where, price=price, charged=price.millionths)

    task = asyncio.create_task(reserve())
    _late.add(task)
    task.add_done_callback(_late.discard)
    return why, price


async def _refuse(_self: Purses, _buyer: Buyer, _sending: str) -> Answer:
    """Keep the money."""
    return "empty", None


async def _free_all(self: Purses, *where: str, price: Price, charged: int | None) -> None:
    """Free what was reserved, whatever was charged."""
    await _settle(self, *where, price=price, charged=0 if charged else charged)


async def _never_settle(_self: Purses, *_where: str, price: Price, charged: int | None) -> None:
    """Leave it to others."""


async def _settle_twice(self: Purses, *where: str, price: Price, charged: int | None) -> None:
    """Once more, for good luck."""
    await _settle(self, *where, price=price, charged=charged)
    await _settle(self, *where, price=price, charged=charged)


async def _pay_twice(
    self: Payments, page: Page, send: Callable[[str], Awaitable[Response]]
) -> Response:
    """Buy each page again, with money that is reserved again."""
    response = await _pay(self, page, send)
    if page.offer and page.offer.price:
        page.phase = Phase.CONNECTING
        return await _pay(self, page, send)
    return response


def _offer_unsigned(self: Signatures, request: Request, page: Page, price: str = "") -> list[bytes]:
    """Sign the rest."""
    return [
        *_lines(self, request, page),
        *([f"crawler-exact-price: {price}".encode()] * bool(price)),
    ]


def _break_lua(*texts: str) -> None:
    """Leave out parts of the operation, in this process."""

    def read(file: str) -> str:
        text = _read(file)
        for each in texts:
            text = text.replace(each, "")
        return text

    setattr(sources, "read", read)  # noqa: B010  mypy allows no assignment


def _break_settlement() -> None:
    _break_lua(TEXTS["settled"])
    setattr(Purses, "settle", _settle_twice)  # noqa: B010  mypy allows no assignment


TEXTS = {
    "settled": "  redis.call('ZREM', open, member)\n",
    "budgets": "    return 'empty'\n",
}
"""Parts of ``purse.lua``, each in one place."""

BREAKS: Mapping[str, Callable[[], None]] = {
    "reserve-nothing": lambda: setattr(Purses, "reserve", _reserve_nothing),
    "reserve-late": lambda: setattr(Purses, "reserve", _reserve_late),
    "refuse": lambda: setattr(Purses, "reserve", _refuse),
    "free-all": lambda: setattr(Purses, "settle", _free_all),
    "never-settle": lambda: setattr(Purses, "settle", _never_settle),
    "settle-twice": _break_settlement,
    "no-budget": lambda: _break_lua(TEXTS["budgets"]),
    "pay-twice": lambda: setattr(Payments, "pay", _pay_twice),
    "offer-unsigned": lambda: setattr(Signatures, "lines", _offer_unsigned),
}
"""Replacements of one thing that a crawler does by another that it must not do, by their names."""

if name := os.environ.get("BREAK"):
    BREAKS[name]()
