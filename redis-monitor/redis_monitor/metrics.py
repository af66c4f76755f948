"""What a redis-monitor tells Prometheus: the cluster's figures, and what it has done itself.

Gauges are of the whole cluster, so every redis-monitor tells the same: take ``max``, not ``sum``.
"""

from __future__ import annotations

from prometheus_client import Counter, Gauge

RESIDUAL = Gauge(
    "crawlstream_ledger_residual", "Pages that the ledgers cannot account for; must be 0."
)
UNBALANCED_ENDINGS = Counter(
    "crawlstream_unbalanced_endings", "Endings whose counters do not add up; must be 0."
)
CRAWLS = Gauge("crawlstream_crawls", "Crawls under way.")
ENTRIES = Gauge(
    "crawlstream_entries",
    "Pages that are `queued`, `delayed`, `held` by workers, or `spilled` to Kafka.",
    ["state"],
)
OLDEST_WAIT = Gauge(
    "crawlstream_oldest_wait_seconds",
    "Time in which nothing has happened in the crawl that waits longest, among those with queued "
    "pages that are not paused.",
)
WORKERS = Gauge("crawlstream_workers", "Workers that Redis knows.")
OWED = Gauge(
    "crawlstream_records_owed",
    "Records that wait for a redis-monitor: `outbox` (for Kafka), `actions` (to be answered).",
    ["stream"],
)
DOMAINS = Gauge("crawlstream_domains", "Domains with pages that wait.", ["spider"])
MEMORY = Gauge("crawlstream_redis_memory_bytes", "Memory that Redis uses.")
MEMORY_LIMIT = Gauge(
    "crawlstream_redis_memory_limit_bytes", "`maxmemory` of Redis; 0 where it has none."
)
FULL = Gauge("crawlstream_redis_full", "1 while seeds wait in Kafka for memory.")
WRITES = Gauge(
    "crawlstream_redis_write_ok",
    "1 while Redis can write its append-only file and snapshots; 0 after a failure, as on a full "
    "disk.",
)
DISK_FREE = Gauge(
    "crawlstream_disk_free_bytes", "Free room of the disk that holds CRAWLSTREAM_HOME."
)
DISK_SIZE = Gauge("crawlstream_disk_size_bytes", "Size of the disk that holds CRAWLSTREAM_HOME.")
PROCESSES = Gauge("crawlstream_processes", "Living processes.", ["kind", "version"])
ZOOKEEPER = Gauge(
    "crawlstream_zookeeper_connected",
    "1 while this redis-monitor hears of changed rules; the last ones stay in force meanwhile.",
)
LAG = Gauge(
    "crawlstream_intake_lag_records",
    "Records of `incoming` that have not taken effect, by Kafka partition.",
    ["partition"],
)
DOMAIN_RESPONSES = Gauge(
    "crawlstream_domain_responses",
    "Downloads in the last hour of the 20 busiest domains; `*` are all that were too many to be "
    "counted by name.",
    ["domain"],
)
DOMAIN_SUCCESS = Gauge(
    "crawlstream_domain_success_ratio", "Share of them with a status below 400.", ["domain"]
)
DOMAIN_LATENCY = Gauge(
    "crawlstream_domain_latency_seconds", "Mean time of their responses.", ["domain"]
)
REAPED = Counter("crawlstream_reaped_workers", "Dead workers whose pages were taken back.")
RUNS = Counter("crawlstream_runs", "Beginnings and endings of runs that were told.", ["event"])
DEAD_LETTERS = Counter(
    "crawlstream_dead_letters", "Pages that were given up without a worker.", ["reason"]
)
