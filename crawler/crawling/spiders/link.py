"""The link spider: delivers each page and follows its links down to ``maxdepth``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scrapy.http import Response

from crawling.links.children import Outlinks
from crawling.links.extract import links_of
from crawling.page.request import page_of
from crawling.spiders.base import ClusterSpider


class LinkSpider(ClusterSpider):
    """Breadth first within a domain, within the limits of the crawl."""

    name = "link"

    def parse(self, response: Response, **_kwargs: Any) -> Iterator[Any]:
        """The page's record, and what it leads to unless it is at the last level."""
        page = page_of(response)
        links: list[tuple[str, str]] = []
        if page.hold.entry.depth < page.hold.profile.maxdepth:
            links, refused = links_of(response, page.hold.profile)
            page.filtered.update(refused)
            yield Outlinks([url for url, _text in links])
        yield self.result(response, links)
