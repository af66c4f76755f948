"""The names of Scrapy Cluster 1.2 and 1.3, and what became of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from crawlstream_cli.migrate.finding import Remedy

WORKS, UNUSED, RENAME, CHANGE = Remedy.WORKS, Remedy.UNUSED, Remedy.RENAME, Remedy.CHANGE


class Replacement(NamedTuple):
    """Replacement of a name."""

    verdict: Remedy
    advice: str


RENAMED: Mapping[str, str] = {
    "KAFKA_PRODUCER_TOPIC": "KAFKA_INCOMING_TOPIC",
    "SC_LOG_JSON": "LOG_JSON",
    "SC_LOG_LEVEL": "LOG_LEVEL",
}
"""Settings that have another name."""

_SCOPE = (
    "off by default here: a rule limits what the site receives in total. Set it to true only if"
    " limits shall be separate (docs/politeness.md)"
)

OTHER_DEFAULT: Mapping[str, str] = {
    "SCHEDULER_IP_ENABLED": _SCOPE,
    "SCHEDULER_TYPE_ENABLED": _SCOPE,
}
"""Settings whose value should not be taken over without a thought."""

_BY_THE_CLUSTER = "the cluster sets this itself (docs/spiders.md)"
_LOGS = "logs go to standard error, see LOG_JSON and LOG_LEVEL"

SETTINGS: Mapping[str, Replacement] = {
    "GLOBAL_PAGE_PER_DOMAIN_LIMIT": Replacement(
        CHANGE, "set domain_max_pages in each crawl request"
    ),
    "PUBLIC_IP_URL": Replacement(
        CHANGE, "if crawlers have several public addresses, set CRAWLSTREAM_EGRESS_GROUP for each"
    ),
    "DOWNLOAD_DELAY": Replacement(
        CHANGE,
        "a rate limit holds for the whole cluster: `crawlstream throttle set default --hits 1"
        " --window SECONDS` (2 hits in 1 second is a delay of 0.5)",
    ),
    **{
        name: Replacement(
            CHANGE, "not read: a rate limit holds for the whole cluster (docs/politeness.md)"
        )
        for name in ("AUTOTHROTTLE_ENABLED", "RANDOMIZE_DOWNLOAD_DELAY")
    },
    **{
        name: Replacement(
            CHANGE, "`crawlstream throttle set default --concurrency N` holds for the whole cluster"
        )
        for name in ("CONCURRENT_REQUESTS_PER_DOMAIN", "CONCURRENT_REQUESTS_PER_IP")
    },
    "IP_ADDR_REGEX": Replacement(UNUSED, "no public address is looked up"),
    "SCHEDULER_IP_REFRESH": Replacement(UNUSED, "no public address is looked up"),
    "SCHEUDLER_ITEM_RETRIES": Replacement(UNUSED, "failed pages are retried RETRY_TIMES times"),
    "RETRY_FAILURES_MAX": Replacement(
        UNUSED, "an action is retried until it takes effect or is refused"
    ),
    "REDIS_LOCK_EXPIRATION": Replacement(UNUSED, "redis-monitors share the work without locks"),
    "KAFKA_CONN_TIMEOUT": Replacement(UNUSED, "every process waits for Kafka until it answers"),
    "PLUGIN_DIR": Replacement(UNUSED, "plugins are installed packages (docs/plugins.md)"),
    "SCHEMA_DIR": Replacement(UNUSED, "the schemas are part of crawlstream"),
    "FLASK_LOGGING_ENABLED": Replacement(UNUSED, _LOGS),
    "DAEMON_THREAD_JOIN_TIMEOUT": Replacement(UNUSED, "REST has no such threads"),
    **{
        name: Replacement(UNUSED, _LOGS)
        for name in ("LOGGER_NAME", "LOG_STDOUT", "LOG_MAX_BYTES", "LOG_BACKUPS", "LOG_ENABLED")
    },
    **{
        name: Replacement(UNUSED, _BY_THE_CLUSTER)
        for name in (
            "COOKIES_ENABLED",
            "DNSCACHE_ENABLED",
            "DOWNLOADER",
            "DOWNLOAD_HANDLERS",
            "DUPEFILTER_CLASS",
            "HTTPCACHE_ENABLED",
            "HTTPERROR_ALLOW_ALL",
            "REDIRECT_ENABLED",
            "RETRY_ENABLED",
            "RETRY_HTTP_CODES",
            "SCHEDULER",
            "TELNETCONSOLE_ENABLED",
        )
    },
}
"""Settings that no variable of crawlstream stands for; ``FORMER`` has those with patterns."""

COMPONENTS = frozenset(
    {"DOWNLOADER_MIDDLEWARES", "EXTENSIONS", "ITEM_PIPELINES", "PLUGINS", "SPIDER_MIDDLEWARES"}
)
"""Settings that map a class to its rank."""

BUILT_IN = frozenset(
    {
        *("ScraperHandler", "ActionHandler", "StatsHandler", "ZookeeperHandler"),
        *("InfoMonitor", "StopMonitor", "ExpireMonitor", "StatsMonitor", "ZookeeperMonitor"),
    }
)
"""Plugins of both monitors."""

CLASSES: Mapping[str, Replacement] = {
    "BaseHandler": Replacement(
        CHANGE, "derive from crawlstream.plugins.Handler: name, rank, schema, handle"
    ),
    **{
        name: Replacement(CHANGE, "derive from crawlstream.plugins.Action: a name and answer()")
        for name in ("BaseMonitor", "KafkaBaseMonitor")
    },
    **{
        name: Replacement(
            CHANGE, "derive from crawlstream.plugins.Handler; the built-in kinds stay"
        )
        for name in BUILT_IN
        if name.endswith("Handler")
    },
    **{
        name: Replacement(
            CHANGE, "derive from crawlstream.plugins.Action; one of the same name replaces it"
        )
        for name in BUILT_IN
        if name.endswith("Monitor")
    },
    **{
        name: Replacement(
            CHANGE, "results go to Kafka by themselves: write a pipeline of your own class"
        )
        for name in ("KafkaPipeline", "LoggingBeforePipeline")
    },
    **{
        name: Replacement(CHANGE, f"{name} is gone, its work is the frontier's (docs/spiders.md)")
        for name in (
            "CustomCookiesMiddleware",
            "DistributedScheduler",
            "LogRetryMiddleware",
            "MetaPassthroughMiddleware",
            "RFDomainMaxPageFilter",
            "RFGlobalPagePerDomainFilter",
            "RFPDupeFilter",
            "RedisRetryMiddleware",
            "RedisStatsMiddleware",
        )
    },
    "Item": Replacement(
        CHANGE,
        "items of other classes are not sent to Kafka: yield self.result(response, attrs={…}), or"
        " store them by an item pipeline of your own",
    ),
    **{
        name: Replacement(CHANGE, "derive from crawling.ClusterSpider, listed before other bases")
        for name in ("CrawlSpider", "CSVFeedSpider", "SitemapSpider", "Spider", "XMLFeedSpider")
    },
    **{
        name: Replacement(WORKS, "a spider of the cluster; parse stays as it is")
        for name in ("RedisSpider", "ClusterSpider", "LinkSpider", "WanderingSpider")
    },
}
"""Base classes."""

SPIDERS = frozenset(name for name in CLASSES if name.endswith("Spider"))

MODULES: Mapping[str, Replacement] = {
    "crawling.spiders.redis_spider": Replacement(WORKS, "this import stays"),
    "crawling.spiders.link_spider": Replacement(RENAME, "crawling.spiders.link"),
    "crawling.spiders.wandering_spider": Replacement(RENAME, "crawling.spiders.wandering"),
    "crawling.spiders.lxmlhtml": Replacement(RENAME, "crawling.links_of(response) lists links"),
    "crawling.items": Replacement(
        CHANGE, "yield self.result(response) in place of RawResponseItem"
    ),
    "crawling": Replacement(CHANGE, "this module is gone; `crawling` is crawlstream's own package"),
    "scutils": Replacement(
        CHANGE, "not installed here; in spiders, self.logger takes LogFactory's place"
    ),
    "plugins": Replacement(CHANGE, "import from crawlstream.plugins (docs/plugins.md)"),
    "redis": Replacement(
        CHANGE,
        "write to a Redis of your own: keys that are written to the frontier's have no effect",
    ),
    "scrapy.conf": Replacement(CHANGE, "gone from Scrapy 2: use self.settings"),
    "scrapy.contrib": Replacement(
        CHANGE, "gone from Scrapy 2: the module is directly below scrapy"
    ),
    "scrapy.log": Replacement(CHANGE, "gone from Scrapy 2: use self.logger"),
    "scrapy.utils.reqser": Replacement(CHANGE, "gone from Scrapy 2: the frontier stores requests"),
    "scrapy.xlib": Replacement(CHANGE, "gone from Scrapy 2: use pydispatch or twisted"),
    "future": Replacement(CHANGE, "a Python 2 helper that is not installed here: remove it"),
    "past": Replacement(CHANGE, "a Python 2 helper that is not installed here: remove it"),
    "six": Replacement(CHANGE, "a Python 2 helper that is not installed here: remove it"),
}
"""Modules by prefix; the longest that fits counts."""

REDIS_KEYS: Mapping[str, str] = {
    r":queue\b": "read `info`, GET /v2/crawls or GET /v2/state: queues have another layout",
    r":dupefilter:": "`filtered.duplicate` of a crawl counts its duplicates (GET /v2/crawls)",
    r"\bstats:(crawler|kafka-monitor|redis-monitor|rest)\b": (
        "feed a stats request, or scrape /metrics (docs/metrics.md)"
    ),
    r":throttle_(window|time)\b": "`crawlstream frontier inspect DOMAIN` tells what it waits for",
    r"\b(timeout|stop|info|statsrequest|zk):(?=[%{*]|\w+:)": (
        "feed an action request to Kafka: commands do not travel in Redis keys"
    ),
    r"\brest:poll:": "POST /poll with the poll_id",
    r":blacklist$": "feed an action `stop`; GET /v2/crawls lists stopped crawls",
    r":(domain_max|global)_page(_count)?_filter:": "`filtered` of a crawl counts them",
}
"""Expressions for keys of its Redis in strings of a program, and what to read instead."""

COMMANDS: Mapping[str, Replacement] = {
    r"kafka_monitor\.py\s+run": Replacement(RENAME, "kafka-monitor run"),
    r"kafka_monitor\.py\s+feed": Replacement(
        RENAME, "kafka-monitor feed, or crawlstream feed FILE"
    ),
    r"kafkadump\.py": Replacement(RENAME, "kafkadump, with the same list and dump -t TOPIC"),
    r"redis_monitor\.py": Replacement(RENAME, "redis-monitor"),
    r"rest_service\.py": Replacement(RENAME, "rest-service"),
    r"scrapy\s+runspider\s+\S+": Replacement(
        RENAME, "python -m crawling NAME (one process replaces 10 to 20)"
    ),
    r"file_pusher\.py": Replacement(RENAME, "crawlstream throttle set DOMAIN --hits N --window S"),
    r"migrate\.py": Replacement(
        UNUSED, "queues are not taken over: let the old cluster drain first"
    ),
    r"run_(offline|online)_tests\.sh": Replacement(UNUSED, "tests of Scrapy Cluster itself"),
    r"istresearch/scrapy-cluster\S*": Replacement(
        CHANGE, "one image runs every process: docker/compose.yaml, or the Helm chart"
    ),
}
"""Expressions for command lines of files that start processes."""

OWN_CLASSES = frozenset({"KafkaPipeline", "LoggingBeforePipeline", "RawResponseItem"})
"""Classes of Scrapy Cluster in modules that users often have, too."""

OWN_FILES = frozenset(
    {
        *("kafka_monitor.py", "kafkadump.py", "redis_monitor.py", "rest_service.py", "migrate.py"),
        *("scraper_handler.py", "action_handler.py", "stats_handler.py", "zookeeper_handler.py"),
        *("base_handler.py", "base_monitor.py", "kafka_base_monitor.py", "info_monitor.py"),
        *("stop_monitor.py", "expire_monitor.py", "stats_monitor.py", "zookeeper_monitor.py"),
        *("distributed_scheduler.py", "redis_dupefilter.py", "redis_retry_middleware.py"),
        *("redis_domain_max_page_filter.py", "redis_global_page_per_domain_filter.py"),
        *("log_retry_middleware.py", "custom_cookies.py", "meta_passthrough_middleware.py"),
        *("redis_stats_middleware.py", "redis_spider.py", "link_spider.py", "lxmlhtml.py"),
        *("wandering_spider.py", "file_pusher.py"),
    }
)
"""Files that Scrapy Cluster itself consists of."""
