"""The names of Scrapy Cluster 1.2 and 1.3, and what became of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from crawlstream_cli.migrate.finding import Verdict

WORKS, UNUSED, RENAME, CHANGE = Verdict.WORKS, Verdict.UNUSED, Verdict.RENAME, Verdict.CHANGE


class Fate(NamedTuple):
    """Replacement of a name."""

    verdict: Verdict
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

SETTINGS: Mapping[str, Fate] = {
    "GLOBAL_PAGE_PER_DOMAIN_LIMIT": Fate(CHANGE, "set domain_max_pages in each crawl request"),
    "PUBLIC_IP_URL": Fate(
        CHANGE, "if crawlers have several public addresses, set CRAWLSTREAM_EGRESS_GROUP for each"
    ),
    "DOWNLOAD_DELAY": Fate(
        CHANGE,
        "a rate limit holds for the whole cluster: `crawlstream throttle set default --hits 1"
        " --window SECONDS` (2 hits in 1 second is a delay of 0.5)",
    ),
    **{
        name: Fate(
            CHANGE, "not read: a rate limit holds for the whole cluster (docs/politeness.md)"
        )
        for name in ("AUTOTHROTTLE_ENABLED", "RANDOMIZE_DOWNLOAD_DELAY")
    },
    **{
        name: Fate(
            CHANGE, "`crawlstream throttle set default --concurrency N` holds for the whole cluster"
        )
        for name in ("CONCURRENT_REQUESTS_PER_DOMAIN", "CONCURRENT_REQUESTS_PER_IP")
    },
    "IP_ADDR_REGEX": Fate(UNUSED, "no public address is looked up"),
    "SCHEDULER_IP_REFRESH": Fate(UNUSED, "no public address is looked up"),
    "SCHEUDLER_ITEM_RETRIES": Fate(UNUSED, "failed pages are retried RETRY_TIMES times"),
    "RETRY_FAILURES_MAX": Fate(UNUSED, "an action is retried until it takes effect or is refused"),
    "REDIS_LOCK_EXPIRATION": Fate(UNUSED, "redis-monitors share the work without locks"),
    "KAFKA_CONN_TIMEOUT": Fate(UNUSED, "every process waits for Kafka until it answers"),
    "PLUGIN_DIR": Fate(UNUSED, "plugins are installed packages (docs/plugins.md)"),
    "SCHEMA_DIR": Fate(UNUSED, "the schemas are part of crawlstream"),
    "FLASK_LOGGING_ENABLED": Fate(UNUSED, _LOGS),
    "DAEMON_THREAD_JOIN_TIMEOUT": Fate(UNUSED, "REST has no such threads"),
    **{
        name: Fate(UNUSED, _LOGS)
        for name in ("LOGGER_NAME", "LOG_STDOUT", "LOG_MAX_BYTES", "LOG_BACKUPS", "LOG_ENABLED")
    },
    **{
        name: Fate(UNUSED, _BY_THE_CLUSTER)
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

CLASSES: Mapping[str, Fate] = {
    "BaseHandler": Fate(
        CHANGE, "derive from crawlstream.plugins.Handler: name, rank, schema, handle"
    ),
    **{
        name: Fate(CHANGE, "derive from crawlstream.plugins.Action: a name and answer()")
        for name in ("BaseMonitor", "KafkaBaseMonitor")
    },
    **{
        name: Fate(CHANGE, "derive from crawlstream.plugins.Handler; the built-in kinds stay")
        for name in BUILT_IN
        if name.endswith("Handler")
    },
    **{
        name: Fate(
            CHANGE, "derive from crawlstream.plugins.Action; one of the same name replaces it"
        )
        for name in BUILT_IN
        if name.endswith("Monitor")
    },
    **{
        name: Fate(CHANGE, "results go to Kafka by themselves: write a pipeline of your own class")
        for name in ("KafkaPipeline", "LoggingBeforePipeline")
    },
    **{
        name: Fate(CHANGE, f"{name} is gone, its work is the frontier's (docs/spiders.md)")
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
    **{
        name: Fate(CHANGE, "derive from crawling.ClusterSpider, listed before other bases")
        for name in ("CrawlSpider", "CSVFeedSpider", "SitemapSpider", "Spider", "XMLFeedSpider")
    },
    **{
        name: Fate(WORKS, "a spider of the cluster; parse stays as it is")
        for name in ("RedisSpider", "ClusterSpider", "LinkSpider", "WanderingSpider")
    },
}
"""Base classes."""

SPIDERS = frozenset(name for name in CLASSES if name.endswith("Spider"))

MODULES: Mapping[str, Fate] = {
    "crawling.spiders.redis_spider": Fate(WORKS, "this import stays"),
    "crawling.spiders.link_spider": Fate(RENAME, "crawling.spiders.link"),
    "crawling.spiders.wandering_spider": Fate(RENAME, "crawling.spiders.wandering"),
    "crawling.spiders.lxmlhtml": Fate(RENAME, "crawling.links_of(response) lists links"),
    "crawling.items": Fate(CHANGE, "yield self.result(response) in place of RawResponseItem"),
    "crawling": Fate(CHANGE, "this module is gone; `crawling` is crawlstream's own package"),
    "scutils": Fate(CHANGE, "not installed here; in spiders, self.logger takes LogFactory's place"),
    "plugins": Fate(CHANGE, "import from crawlstream.plugins (docs/plugins.md)"),
    "scrapy.conf": Fate(CHANGE, "gone from Scrapy 2: use self.settings"),
    "scrapy.contrib": Fate(CHANGE, "gone from Scrapy 2: the module is directly below scrapy"),
    "scrapy.log": Fate(CHANGE, "gone from Scrapy 2: use self.logger"),
    "scrapy.utils.reqser": Fate(CHANGE, "gone from Scrapy 2: the frontier stores requests"),
    "scrapy.xlib": Fate(CHANGE, "gone from Scrapy 2: use pydispatch or twisted"),
    "future": Fate(CHANGE, "a Python 2 helper that is not installed here: remove it"),
    "past": Fate(CHANGE, "a Python 2 helper that is not installed here: remove it"),
    "six": Fate(CHANGE, "a Python 2 helper that is not installed here: remove it"),
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

COMMANDS: Mapping[str, Fate] = {
    r"kafka_monitor\.py\s+run": Fate(RENAME, "kafka-monitor run"),
    r"kafka_monitor\.py\s+feed": Fate(RENAME, "kafka-monitor feed, or crawlstream feed FILE"),
    r"kafkadump\.py": Fate(RENAME, "kafkadump, with the same list and dump -t TOPIC"),
    r"redis_monitor\.py": Fate(RENAME, "redis-monitor"),
    r"rest_service\.py": Fate(RENAME, "rest-service"),
    r"scrapy\s+runspider\s+\S+": Fate(
        RENAME, "python -m crawling NAME (one process replaces 10 to 20)"
    ),
    r"file_pusher\.py": Fate(RENAME, "crawlstream throttle set DOMAIN --hits N --window S"),
    r"migrate\.py": Fate(UNUSED, "queues are not taken over: let the old cluster drain first"),
    r"run_(offline|online)_tests\.sh": Fate(UNUSED, "tests of Scrapy Cluster itself"),
    r"istresearch/scrapy-cluster\S*": Fate(
        CHANGE, "one image runs every process: docker/compose.yaml, or the Helm chart"
    ),
}
"""Expressions for command lines of files that start processes."""

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
