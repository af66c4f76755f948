"""Decides whether a spider's pages may take the lane: only if no other component handles them.

Scrapy's engine calls middlewares, pipelines and listeners; the lane calls none. So it is for
spiders with none but those of crawlstream and Scrapy's defaults. Some of Scrapy's API used here is
not public; ``test_ways.py`` tests it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pydispatch.dispatcher import getAllReceivers, liveReceivers
from scrapy import signals
from scrapy.downloadermiddlewares.defaultheaders import DefaultHeadersMiddleware
from scrapy.downloadermiddlewares.downloadtimeout import DownloadTimeoutMiddleware
from scrapy.downloadermiddlewares.useragent import UserAgentMiddleware
from scrapy.settings import default_settings
from scrapy.utils.misc import load_object

from crawling.engine.download_handler import GatedHandler
from crawling.engine.downloader import GrantedDownloader
from crawling.engine.item_pipelines import BoundPipelines
from crawling.engine.middlewares import (
    DocumentMiddleware,
    OutcomeMiddleware,
    OutlinksMiddleware,
    ResultPipeline,
    WatchedCompression,
)
from crawling.publish.completion import Completion
from crawling.spiders.base import ClusterSpider

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

_KNOWN = frozenset(
    {
        BoundPipelines,
        DefaultHeadersMiddleware,
        DocumentMiddleware,
        DownloadTimeoutMiddleware,
        GrantedDownloader,
        OutcomeMiddleware,
        OutlinksMiddleware,
        ResultPipeline,
        UserAgentMiddleware,
        WatchedCompression,
    }
)
_SENT_BY_THE_ENGINE = (
    "bytes_received",
    "headers_received",
    "item_dropped",
    "item_error",
    "item_scraped",
    "request_dropped",
    "request_left_downloader",
    "request_reached_downloader",
    "request_scheduled",
    "response_downloaded",
    "response_received",
    "scheduler_empty",
)
"""Signals of single pages; ``spider_error`` is sent by the lane as well."""
_OF_TWISTED = (
    "DOWNLOADER_CLIENTCONTEXTFACTORY",
    "DOWNLOADER_CLIENT_TLS_CIPHERS",
    "DOWNLOADER_CLIENT_TLS_METHOD",
    "DOWNLOAD_TLS_MAX_VERSION",
    "DOWNLOAD_TLS_MIN_VERSION",
    "DOWNLOAD_VERIFY_CERTIFICATES",
)
"""Scrapy's settings that only its own HTTP client goes by."""


def why_engine(crawler: Crawler) -> str:
    """Return why this crawler's pages need Scrapy's engine, in some words; empty if they do not."""
    return next(_reasons(crawler), "")


def _reasons(crawler: Crawler) -> Iterator[str]:
    if crawler.settings["CRAWLSTREAM"].fetch == "engine":
        yield "CRAWLSTREAM_FETCH=engine"
    assert crawler.spider is not None, "it is open"
    spider = type(crawler.spider)
    if spider.start is not ClusterSpider.start:
        yield f"{spider.__name__} has a start() of its own"
    for part in _parts_of(crawler):
        if type(part) not in _KNOWN:
            yield f"{_name_of(part)} is enabled"
    for name in _SENT_BY_THE_ENGINE:
        signal = getattr(signals, name)
        for listener in liveReceivers(getAllReceivers(crawler.signals.sender, signal)):
            owner = getattr(listener, "__self__", listener)
            if not isinstance(owner, Completion):
                yield f"{_name_of(owner)} listens to the signal {name}"
    yield from _settings_set(crawler)


def _parts_of(crawler: Crawler) -> Iterator[Any]:
    """Downloader, middlewares and pipelines as the engine has made them."""
    engine = crawler.engine
    assert engine is not None, "it is made before the spider starts"
    yield from (engine.downloader, engine.scraper.itemproc)
    yield from engine.downloader.middleware.middlewares
    yield from engine.scraper.spidermw.middlewares
    yield from engine.scraper.itemproc.middlewares


def _settings_set(crawler: Crawler) -> Iterator[str]:
    usual = {name: getattr(default_settings, name) for name in _OF_TWISTED}
    for name, value in {**usual, "CONCURRENT_ITEMS": 1}.items():
        if crawler.settings[name] != value:
            yield f"the setting {name} is changed"
    handlers = crawler.settings.getdict("DOWNLOAD_HANDLERS")
    if any(load_object(handlers[each]) is not GatedHandler for each in ("http", "https")):
        yield "the setting DOWNLOAD_HANDLERS is changed"


def _name_of(part: Any) -> str:
    """The import path of a class or function."""
    named = part if hasattr(part, "__qualname__") else type(part)
    return f"{named.__module__}.{named.__qualname__}"
