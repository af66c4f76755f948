"""The spiders of the crawl of oddities, a name for each way; a crawler loads them as a user's.

They know the addresses of the site's names: no DNS server is needed.
"""

from __future__ import annotations

import socket
from typing import Any

from crawling.spiders.link import LinkSpider
from crawling.spiders.sitemap import SitemapSpider

_look_up = socket.getaddrinfo


def _look_up_here(host: Any, *args: Any, **kwargs: Any) -> Any:
    is_ours = isinstance(host, str) and host.endswith(".example")
    return _look_up("127.0.0.1" if is_ours else host, *args, **kwargs)


socket.getaddrinfo = _look_up_here


class ByLane(LinkSpider):
    """Its pages take the fetch lane."""

    name = "odd-lane"


class ByEngine(LinkSpider):
    """Its pages take Scrapy's engine."""

    name = "odd-engine"


class Sitemaps(SitemapSpider):
    """Reads sitemaps."""

    name = "odd-sitemaps"
