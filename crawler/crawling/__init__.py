"""Crawler: leased requests through Scrapy, results to Kafka.

The life of a page here, room by room:

``runtime``   ``lease_loop`` asks the frontier for as many holds as there is room for, and tells it
              all that happened since: one exchange, again and again; ``request_source`` hands the
              pages to the ``way`` that they take
``lease``     makes a ``page.page.Page`` of each hold; ``slots`` says how many there may be,
              ``cpu_fairness`` which domains rest because their pages are dear, ``word`` whether
              Redis has answered so lately that a request may leave
``robots``    lets it pass, ends it, or spends its grant on the robots.txt nobody has yet
              (``store`` in the cluster, ``cache`` in this process)
``page``      ``request`` makes a request of it, the only one there will be for this grant;
              ``body_budget`` says which bodies wait because all together are too large
``lane``      takes it through all that follows in one task, if nobody else has a part in it;
              ``client`` is libcurl behind the gate
``render``    has a browser make it instead, where a crawler renders
``tls``       has curl_cffi ask for it, where a site is to be greeted like a browser does
``engine``    is the other way, where Scrapy calls: ``download_handler`` is the last gate,
              ``downloader`` lets nobody else send, ``middlewares`` and ``pipelines`` take what
              comes back, and ``gathering`` what a spider yields, on both ways
``net``       ``address_guard`` vets the address, the server is who it says where that matters
              (``trust``), ``connections`` are kept for the next page
``response``  decides whether what came is for the spider, another attempt, a redirect or a failure
              (``failures``); ``site_feedback`` is what the frontier hears of the site
``spiders``   make a result of it and find links
``links``     extracts, filters and packs these for the frontier, without ``traps`` and what the
              ``blacklist`` holds
``publish``   has the record acknowledged by Kafka, its ``bodies`` stored before if need be;
              ``completion`` then owes its end to the frontier, or ``spill`` sees its links to Kafka

``runtime.worker`` lives from the first beat to the last: ``assembly`` makes its ``parts``,
``lease_keeper`` moves its deadline; ``recycling`` and ``preemption`` say when its end has come. The
``flight_recorder`` remembers what was on the CPU, should the process die of it. ``settings`` and
``addon`` are what Scrapy must be told.

Spiders of your own import from here: :class:`ClusterSpider`, :class:`Outlinks`, :func:`links_of`;
pipelines of your own :class:`CrawlResult`. :mod:`crawling.testing` runs a spider without servers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crawling.links.children import Outlinks
    from crawling.links.extract import links_of
    from crawling.spiders.base import ClusterSpider
    from crawlstream.model.result import CrawlResult

__all__ = ["ClusterSpider", "CrawlResult", "Outlinks", "links_of"]

_HOMES = {
    "ClusterSpider": "crawling.spiders.base",
    "CrawlResult": "crawlstream.model.result",
    "Outlinks": "crawling.links.children",
    "links_of": "crawling.links.extract",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is asked for: most need Scrapy's reactor, settings do not."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
