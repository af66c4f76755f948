"""The wandering spider: from page to page by one link chosen at random."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from scrapy import Request
from scrapy.http import Response

from crawling import ClusterSpider, links_of


class WanderingSpider(ClusterSpider):
    """Walks until it meets a page that it has seen, or one without links.

    ``attrs.step`` of its results counts from 0 at the seed.
    """

    name = "wandering"
    obeys_maxdepth = False

    def parse(self, response: Response, **_kwargs: Any) -> Iterator[Any]:
        """The page's record and one request."""
        step = int(response.meta.get("step", 0))
        links, _refused = links_of(response)
        yield self.result(response, attrs={**(response.meta["attrs"] or {}), "step": step})
        if links:
            url, _text = random.choice(links)  # noqa: S311  a walk needs no secrets
            yield Request(url, callback=self.parse, meta={"step": step + 1})
