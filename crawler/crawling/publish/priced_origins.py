"""Reports origins that want to be paid."""

from __future__ import annotations

import time
from collections import OrderedDict

import structlog

from crawling.page.page import Page
from crawling.publish.publisher import Publisher
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.event import PaymentRequired
from crawlstream.model.url import entry_id, origin_of

_REMEMBERED = 1_000

log = structlog.get_logger()


class PricedOrigins:
    """Publishes an event for each origin and run of a crawl, once in this process."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._reported: OrderedDict[tuple[CrawlKey, int, str], None] = OrderedDict()

    async def note(self, page: Page) -> None:
        """Publish the event of a page's origin, if it is the first one there with a price."""
        lease, origin = page.lease, origin_of(page.lease.entry.url)
        name = (lease.crawl, lease.run, origin)
        if name in self._reported:
            return
        # Other pages need not wait for Kafka: this one stays open until the event is there.
        self._reported[name] = None
        if len(self._reported) > _REMEMBERED:
            self._reported.popitem(last=False)
        payment = page.payment or {}
        event = PaymentRequired(
            id=entry_id(lease.crawl, lease.run, f"payment {origin}", None),
            crawl=lease.crawl,
            run=lease.run,
            server_time=int(time.time()),
            origin=origin,
            url=lease.entry.url,
            price=payment.get("price"),
            error=payment.get("error"),
            firing=lease.firing,
        )
        await self._publisher.event(event)
        log.info("payment_required", origin=origin, price=event.price, crawlid=lease.crawl.crawlid)
