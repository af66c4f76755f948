"""Crawler: fetches leased requests through Scrapy and publishes results to Kafka.

The packages in the order in which a page passes them:

``runtime``   ``lease_loop`` exchanges with the frontier in a loop: it reports finished work and
              leases as many pages as there is room for; ``request_source`` passes the pages to
              the fetch lane or to Scrapy (``way``)
``lease``     makes a ``page.page.Page`` of each lease; ``slots`` limits their number,
              ``cpu_fairness`` lets domains with expensive pages rest, ``last_contact`` checks that
              Redis has answered recently enough for a request to leave
``robots``    allows the page, ends it, or uses its grant to fetch a missing robots.txt
              (``robots_book`` in the cluster, ``cache`` in this process)
``page``      ``scrapy_request`` makes the only request for the grant; ``body_budget`` limits the
              memory of all bodies, and chooses which ones wait
``lane``      processes the page to its end in one task, if no code of the user takes part;
              ``client`` is libcurl behind the gate
``autorender``  finds out which pages of crawls with ``render: auto`` need a browser
``render``    fetches the page with a browser instead, in a crawler that renders
``tls``       fetches the page with curl_cffi, if the site needs the TLS profile of a browser
``engine``    is the other way, through Scrapy: ``download_handler`` is the last gate,
              ``downloader`` refuses requests without a grant, ``middlewares`` and
              ``item_pipelines`` take the response, and ``gathering`` takes the output of a
              spider, on both ways
``net``       ``address_guard`` checks the address, ``trust`` says where a server must prove its
              identity, ``connections`` are kept for the next page
``response``  passes a response to the spider, or makes it another attempt, a redirect or a
              failure (``failures``); ``site_feedback`` reports the site's reaction to the frontier
``spiders``   make a result of the response and find links
``links``     extracts, filters and packs the links for the frontier, without ``traps`` and without
              domains on the ``blacklist``
``publish``   sends the record to Kafka and waits for its acknowledgement, after storing its
              ``bodies`` if need be; ``completion`` then reports the end of the page to the
              frontier, or ``spill`` sends its links to Kafka

``runtime.worker`` runs from the first heartbeat to the last: ``assembly`` makes its ``parts``,
``lease_keeper`` extends its deadline, ``recycling`` and ``preemption`` decide when it ends. The
``flight_recorder`` stores which page is on the CPU, in case the process dies of it. ``settings``
and ``addon`` configure Scrapy.

Import from here for your own spiders: :class:`ClusterSpider`, :class:`Outlinks`, :func:`links_of`;
for your own pipelines: :class:`CrawlResult`. :mod:`crawling.testing` runs a spider without servers.
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
    """Import a public name on first use: most need Scrapy's reactor, settings do not."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
