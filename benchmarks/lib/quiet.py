"""A link spider that delivers nothing: what crawling costs without its results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scrapy.http import Response

from crawling.links.children import Outlinks
from crawling.spiders.link import LinkSpider


class QuietSpider(LinkSpider):
    """Makes its results, and keeps them to itself."""

    name = "quiet"

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        """Yield the requests for the links of a page."""
        return (each for each in super().parse(response, **kwargs) if isinstance(each, Outlinks))
