"""Scrapy's settings of every crawler process, each with its reason.

Settings of operators are in :mod:`crawlstream.boot.settings`. This module has the settings that
follow from them, and fixed ones: the frontier, not Scrapy, decides which site gets requests, when
and how often.
"""

from __future__ import annotations

import os
from typing import Any

from crawling.lease.slots import SLOW_PER_SLOT
from crawlstream.boot.local_note import load_process_settings

CRAWLSTREAM = load_process_settings()
"""The startup settings, for this package."""

BOT_NAME = "crawlstream"
SPIDER_MODULES = [
    "crawling.spiders",
    *filter(None, os.environ.get("CRAWLSTREAM_SPIDER_MODULES", "").split(",")),
]
"""A user's own spiders: importable modules, separated by commas."""
ADDONS = {"crawling.addon.ClusterAddon": 0}
"""The add-on makes the following settings override a spider's ``custom_settings``."""

# A single, fast event loop for everything.
TWISTED_REACTOR = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"
ASYNCIO_EVENT_LOOP = "uvloop.Loop"

# Concurrency: the frontier counts a domain's requests across the cluster; a limit of this process
# would delay granted requests until their grants expire.
# Slow requests have slots of their own: see crawling.lease.slots.
CONCURRENT_REQUESTS = (1 + SLOW_PER_SLOT) * CRAWLSTREAM.download_slots
CONCURRENT_REQUESTS_PER_DOMAIN = CONCURRENT_REQUESTS
CONCURRENT_REQUESTS_PER_IP = 0
DOWNLOAD_DELAY = 0
DOWNLOAD_SLOTS: dict[str, Any] = {}
# Tasks that Scrapy starts for each response; most pages yield one result.
CONCURRENT_ITEMS = 1
# Bytes of bodies that wait for Kafka; above this nothing is downloaded or leased.
SCRAPER_SLOT_MAX_ACTIVE_SIZE = 64 * 1024 * 1024

# Limits of one download.
DOWNLOAD_TIMEOUT = CRAWLSTREAM.download_timeout
DOWNLOAD_MAXSIZE = CRAWLSTREAM.download_max_bytes
DOWNLOAD_WARNSIZE = 0
USER_AGENT = CRAWLSTREAM.user_agent

# Only HTTP, and only through the gate: file:, ftp:, s3: and data: would bypass it.
DOWNLOAD_HANDLERS: dict[str, Any] = {
    "http": "crawling.engine.download_handler.GatedHandler",
    "https": "crawling.engine.download_handler.GatedHandler",
    "data": None,
    "file": None,
    "ftp": None,
    "s3": None,
}
DOWNLOADER = "crawling.engine.downloader.GrantedDownloader"
TWISTED_DNS_RESOLVER = "crawling.net.address_guard.GuardedResolver"

# Requests are not stored: their grants are useless to other processes and expire soon.
SCHEDULER = "scrapy.core.scheduler.Scheduler"
JOBDIR = None
# The local queue has granted requests for moments: strictly by priority, then in lease order.
SCHEDULER_PRIORITY_QUEUE = "scrapy.pqueues.ScrapyPriorityQueue"
SCHEDULER_MEMORY_QUEUE = "scrapy.squeues.FifoMemoryQueue"
DUPEFILTER_CLASS = "scrapy.dupefilters.BaseDupeFilter"

EXTENSIONS: dict[str, Any] = {
    "crawling.runtime.worker.Worker": 0,
    "crawling.runtime.preemption.Watcher": 1,
    # An HTTP server and a console that run Python must never be on a machine that crawls.
    "scrapy.extensions.remote_control.RemoteControl": None,
    "scrapy.extensions.telnet.TelnetConsole": None,
    # Made for crawls with an end, or replaced by other parts of crawlstream.
    "scrapy.extensions.closespider.CloseSpider": None,
    "scrapy.extensions.corestats.CoreStats": None,
    "scrapy.extensions.feedexport.FeedExporter": None,
    "scrapy.extensions.logcount.LogCount": None,
    "scrapy.extensions.logstats.LogStats": None,
    "scrapy.extensions.memdebug.MemoryDebugger": None,
    "scrapy.extensions.memusage.MemoryUsage": None,
    "scrapy.extensions.spiderstate.SpiderState": None,
    "scrapy.extensions.throttle.AutoThrottle": None,
}
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False
STATS_DUMP = False

_DOWNLOADER = "scrapy.downloadermiddlewares"
DOWNLOADER_MIDDLEWARES: dict[str, Any] = {
    "crawling.engine.middlewares.OutcomeMiddleware": 1,
    "crawling.engine.middlewares.WatchedCompression": 590,
    f"{_DOWNLOADER}.httpcompression.HttpCompressionMiddleware": None,
    # Retries, redirects and robots.txt need grants, so they go through the frontier.
    f"{_DOWNLOADER}.retry.RetryMiddleware": None,
    f"{_DOWNLOADER}.redirect.RedirectMiddleware": None,
    f"{_DOWNLOADER}.redirect.MetaRefreshMiddleware": None,
    f"{_DOWNLOADER}.robotstxt.RobotsTxtMiddleware": None,
    # Cookie jars and filters of the process would mix data of different crawls.
    f"{_DOWNLOADER}.cookies.CookiesMiddleware": None,
    f"{_DOWNLOADER}.offsite.OffsiteMiddleware": None,
    f"{_DOWNLOADER}.httpauth.HttpAuthMiddleware": None,
    f"{_DOWNLOADER}.httpcache.HttpCacheMiddleware": None,
    # A proxy from the environment would bypass the guard.
    f"{_DOWNLOADER}.httpproxy.HttpProxyMiddleware": None,
    f"{_DOWNLOADER}.stats.DownloaderStats": None,
}
COOKIES_ENABLED = False
HTTPPROXY_ENABLED = False
REDIRECT_ENABLED = False
METAREFRESH_ENABLED = False
RETRY_ENABLED = False
# Middlewares that retry have the crawler's limit.
RETRY_TIMES = CRAWLSTREAM.retry_times
ROBOTSTXT_OBEY = False

_SPIDER = "scrapy.spidermiddlewares"
SPIDER_MIDDLEWARES: dict[str, Any] = {
    "crawling.engine.middlewares.OutlinksMiddleware": 1,
    # Every status is a result.
    f"{_SPIDER}.httperror.HttpErrorMiddleware": None,
    # The frontier decides about depth, length and referrer of a link when it is enqueued.
    f"{_SPIDER}.depth.DepthMiddleware": None,
    f"{_SPIDER}.urllength.UrlLengthMiddleware": None,
    f"{_SPIDER}.referer.RefererMiddleware": None,
    f"{_SPIDER}.metacopy.MetaCopyDetectionMiddleware": None,
    f"{_SPIDER}.start.StartSpiderMiddleware": None,
}
REFERER_ENABLED = False
HTTPERROR_ALLOW_ALL = True

ITEM_PROCESSOR = "crawling.engine.item_pipelines.BoundPipelines"
ITEM_PIPELINES: dict[str, Any] = {"crawling.engine.middlewares.ResultPipeline": 900}

# Crawlstream logs its own events; only warnings of Scrapy are of interest.
LOG_INSTALL_ROOT_HANDLER = False
LOG_VERSIONS: list[str] = []
