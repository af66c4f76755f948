"""The link spider: delivers each page and follows its links down to ``maxdepth``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scrapy.http import Response

from crawling import ClusterSpider, Outlinks, links_of
from crawling.links.sitemap_files import follows_links
from crawling.page.scrapy_request import page_of


class LinkSpider(ClusterSpider):
    """Breadth first within a domain, within the limits of the crawl."""

    name = "link"

    def parse(self, response: Response, **_kwargs: Any) -> Iterator[Any]:
        """The page's record, and what it leads to unless it is at the last level."""
        links: list[tuple[str, str]] = []
        is_above = response.meta["curdepth"] < response.meta["maxdepth"]
        if is_above and follows_links(page_of(response)):
            links, refused = links_of(response)
            texts = [text for _url, text in links]
            yield Outlinks([url for url, _text in links], refused, texts=texts)
        yield self.result(response, links)
