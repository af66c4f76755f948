"""Collect a spider's output of one page piece by piece: links stay here, items are passed on."""

from __future__ import annotations

from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response

from crawling.links.children import Children, Outlinks
from crawling.page.page import Page
from crawling.parts import Parts
from crawlstream.boot.failpoints import failpoint
from crawlstream.model.result import CrawlResult

_LINK = 200
"""Bytes that a link of a result takes, about."""


class Gathering:
    """The children of one page until it has been parsed."""

    def __init__(self, page: Page, response: Response, parts: Parts, spider: Spider | None) -> None:
        self._page = page
        self._response = response
        self._parts = parts
        self._obeys_maxdepth = getattr(spider, "obeys_maxdepth", True)
        self._children = Children(page, parts.traps, spider=spider)

    def take(self, each: Any) -> Any:
        """Keep links and requests; anything else comes back, an item for the pipelines."""
        page = self._page
        if isinstance(each, Outlinks):
            page.filtered.update(each.refused)
            if page.keeps_links:
                page.filtered.update("nofollow" for _ in each.urls)
            elif each.versions:
                self._children.follow_versions(each, self._response)
            else:
                self._children.follow(each.urls, self._response, spiderid=each.spiderid)
        elif isinstance(each, Request):
            self._request(each)
        elif each is not None:
            page.items += 1
            self._weigh(each)
            return each
        return None

    def _request(self, request: Request) -> None:
        lease = self._page.lease
        if self._obeys_maxdepth and lease.entry.depth >= lease.profile.maxdepth:
            self._page.filtered["depth"] += 1
        else:
            self._children.request(request, self._response)

    def _weigh(self, item: Any) -> None:
        """Add the size of a result that waits for Kafka: its body and its links."""
        if isinstance(item, CrawlResult) and self._page.is_open:
            size = len(item.body) + len(item.links) * _LINK
            self._parts.body_budget.weigh(self._page, size)

    def stop(self) -> None:
        """The spider yields no more, whether it has come to its end or raised."""
        self._page.links = self._parts.blacklist.screen(self._page, self._children.groups)

    def complete(self) -> None:
        """The spider has yielded everything; the page ends when its items have left."""
        failpoint("after_parse")
        self._parts.endings.parsed(self._page)
