"""Pays for pages of crawls that have a purse: money is reserved before it is offered.

A reservation belongs to one sending of one request. It is freed only if the site surely took
nothing: the request never left, or was refused (4xx) without a receipt. Whatever else happens to
it, to this process or to Redis, it counts as spent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count

import structlog
from scrapy.http import Response

from crawling.background import Tasks
from crawling.metrics import PAYMENTS
from crawling.page.page import Offer, Page
from crawlstream.boot.failpoints import failpoint
from crawlstream.errors import CrawlstreamError
from crawlstream.model.url import domain_key, host_of, origin_of
from crawlstream.model.words.price import Price, price_in
from crawlstream.retry import up_to
from crawlstream_frontier.egress.purses import OK, Buyer, Purses

CHARGED = b"Crawler-Charged"
_NOTHING = Price("", 0)
"""Limit of a crawl whose own cannot be read."""
_NO_ANSWER = CrawlstreamError
_SETTLE_TRIES, _SETTLE_PAUSE_S = 300, 2.0
"""Ten minutes at least: Redis gives up reservations that are older."""

log = structlog.get_logger()


class Payments:
    """Offers prices for one worker, and settles them."""

    def __init__(self, purses: Purses, worker: str, tasks: Tasks) -> None:
        self._purses = purses
        self._worker = worker
        self._tasks = tasks
        self._numbers = count(1)
        self._logged: set[tuple[str, str]] = set()
        """Purses that did not pay, and the reason, as the log has it; purses are few."""
        self._unbooked: set[str] = set()
        """Sendings whose cost Redis has not taken yet; a crawler without Redis makes no others."""

    async def can_pay(self, page: Page) -> bool:
        """Note the price that a site names; return whether another attempt would pay it."""
        price = price_in((page.payment or {}).get("price") or "")
        if page.offer is None or price is None or price == page.offer.price:
            return False
        try:
            why = await self._purses.quote(_buyer(page), price)
        except _NO_ANSWER:
            why = "unreachable"
        return self._note(page.offer.purse, why)

    async def pay(self, page: Page, send: Callable[[str], Awaitable[Response]]) -> Response:
        """Send a request with the known price of its origin, once it is reserved; settle it."""
        buyer = _buyer(page)
        sending = f"{page.id} {self._worker} {next(self._numbers)}"
        price = await self._reserve(buyer, sending)
        page.offer = Offer(buyer.purse, price)
        failpoint("after_reserve")
        if price is None:
            return await send("")
        response = None
        try:
            response = await send(str(price))
        finally:
            charged = _charged(page, response, price)
            self._tasks.spawn(self._settle(buyer, sending, price, charged))
        return response

    async def _reserve(self, buyer: Buyer, sending: str) -> Price | None:
        """Return the price that is reserved; without a clear answer, none is offered."""
        try:
            why, price = await self._purses.reserve(buyer, sending)
        except _NO_ANSWER:
            why, price = "unreachable", None
        if why != "no_price":
            self._note(buyer.purse, why)
        return price

    def _note(self, purse: str, why: str) -> bool:
        """Count and log a price that is not paid; return whether it is."""
        if why == OK:
            return True
        PAYMENTS.labels(why).inc()
        if (purse, why) not in self._logged:
            self._logged.add((purse, why))
            log.warning("payment", outcome=why, purse=purse)
        return False

    async def _settle(self, buyer: Buyer, sending: str, price: Price, charged: int | None) -> None:
        """Book the cost of a sending; if Redis stays away, its whole price counts as spent."""
        PAYMENTS.labels(_outcome(price, charged)).inc()
        failpoint("before_settlement")

        async def book() -> None:
            await self._purses.settle(
                buyer.purse, buyer.origin, sending, price=price, charged=charged
            )

        def note(error: Exception, _left: int) -> None:
            if not self._unbooked:
                log.warning("payment", outcome="waiting", error=str(error))
            self._unbooked.add(sending)

        try:
            await up_to(_SETTLE_TRIES, book, pause_s=_SETTLE_PAUSE_S, on_failure=note)
        except _NO_ANSWER as error:
            told = {"purse": buyer.purse, "price": str(price), "sending": sending}
            log.error("payment", outcome="not_booked", error=str(error), **told)  # noqa: TRY400
        finally:
            self._unbooked.discard(sending)


def count_unasked(page: Page) -> None:
    """Count a receipt for something that was not offered."""
    payment = page.payment
    if payment and payment["charged"] and not payment["purse"]:
        PAYMENTS.labels("unasked").inc()


def _outcome(price: Price, charged: int | None) -> str:
    if charged is None:
        return "unsettled"
    if charged > price.millionths:
        return "overcharged"
    return "charged" if charged else "free"


def _buyer(page: Page) -> Buyer:
    lease, profile = page.lease, page.lease.profile
    url = lease.entry.url
    limit = (price_in(profile.max_price) or _NOTHING) if profile.max_price else None
    return Buyer(
        profile.purse or "", origin_of(url), domain_key(host_of(url)), lease.crawl.appid, limit
    )


def _charged(page: Page, response: Response | None, price: Price) -> int | None:
    """Return what a sending has cost for sure; None: unknown, it may have cost its price."""
    if response is None:
        return 0 if page.phase.is_unsent else None
    if CHARGED in response.headers:
        receipt = price_in((response.headers[CHARGED] or b"").decode("latin-1").strip())
        same = receipt is not None and receipt.currency == price.currency
        return receipt.millionths if receipt and same else None
    return 0 if 400 <= response.status < 500 else None
