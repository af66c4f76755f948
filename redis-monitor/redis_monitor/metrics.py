"""Prometheus metrics of a redis-monitor: the cluster's figures, and its own work.

Gauges are of the whole cluster, so every redis-monitor reports equal values: take ``max``, not
``sum``.
"""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

RESIDUAL = Gauge(
    "crawlstream_ledger_residual",
    "Sum over all runs of admitted pages minus pages accounted for; must be 0.",
)
UNBALANCED_ENDINGS = Counter(
    "crawlstream_unbalanced_endings",
    "Number of runs that ended with an unbalanced ledger; must be 0.",
)
CRAWLS = Gauge("crawlstream_crawls", "Number of crawls that have not ended.")
ENTRIES = Gauge(
    "crawlstream_entries",
    "Number of pages by state: `queued`, `delayed`, `held` (in flight, leased by a worker),"
    " `spilled` (to Kafka).",
    ["state"],
)
OLDEST_WAIT = Gauge(
    "crawlstream_oldest_wait_seconds",
    "Seconds since the last activity of the most stalled crawl; paused crawls and crawls without"
    " queued pages are not considered.",
)
PARTITION_UP = Gauge(
    "crawlstream_partition_up",
    "1 if the partition of the frontier answers; a frontier of one partition has partition `0`.",
    ["partition"],
)
WORKERS = Gauge("crawlstream_workers", "Number of workers registered in Redis.")
OWED = Gauge(
    "crawlstream_records_owed",
    "Number of records that a redis-monitor has yet to process: `outbox` (to publish to Kafka),"
    " `actions` (to answer).",
    ["stream"],
)
GATE_WAIT = Gauge(
    "crawlstream_gate_wait_seconds",
    "Seconds that a domain of a group that comes to its gate now waits there, at least: by the"
    " limits of the group, and the number of domains that wait already. Of several partitions, the"
    " longest time; `@addresses`: that of the address at which most domains wait.",
    ["group"],
)
GATE_DOMAINS = Gauge(
    "crawlstream_gate_domains",
    "Number of domains that wait for the gate of their group; `@addresses`: for the address at"
    " which most of them wait.",
    ["group"],
)
DOMAINS = Gauge("crawlstream_domains", "Number of domains with waiting pages.", ["spider"])
MEMORY = Gauge("crawlstream_redis_memory_bytes", "Memory used by Redis (`used_memory`).")
MEMORY_LIMIT = Gauge(
    "crawlstream_redis_memory_limit_bytes", "Memory limit of Redis (`maxmemory`); 0 if unlimited."
)
FULL = Gauge(
    "crawlstream_redis_full",
    "1 while Redis is too full to admit seeds, which stay in Kafka meanwhile.",
)
WRITES = Gauge(
    "crawlstream_redis_write_ok",
    "1 while Redis can write its append-only file and snapshots; 0 after a failed write, e.g. on"
    " a full disk.",
)
DISK_FREE = Gauge(
    "crawlstream_disk_free_bytes", "Free space on the file system of CRAWLSTREAM_HOME."
)
DISK_SIZE = Gauge("crawlstream_disk_size_bytes", "Size of the file system of CRAWLSTREAM_HOME.")
PROCESSES = Gauge(
    "crawlstream_processes", "Number of processes with a current heartbeat.", ["kind", "version"]
)
ZOOKEEPER = Gauge(
    "crawlstream_zookeeper_connected",
    "1 while this redis-monitor is connected to ZooKeeper; while 0, the last known rules stay"
    " active.",
)
LAG = Gauge(
    "crawlstream_intake_lag_records",
    "Consumer lag: records of `incoming` that have not taken effect, by Kafka partition.",
    ["partition"],
)
LINKS_LAG = Gauge(
    "crawlstream_links_lag_records",
    "Number of records with links to a partition of the frontier that it has not read; with one"
    " partition there are none.",
    ["partition"],
)
LINKS_WAIT = Gauge(
    "crawlstream_links_lag_seconds",
    "Seconds for which the oldest of these records has been waiting, at least.",
    ["partition"],
)
DOMAIN_RESPONSES = Gauge(
    "crawlstream_domain_responses",
    "Downloads in the last hour, for the 20 busiest domains; `*` sums domains that are not"
    " counted individually.",
    ["domain"],
)
DOMAIN_SUCCESS = Gauge(
    "crawlstream_domain_success_ratio",
    "Fraction of these downloads with an HTTP status below 400.",
    ["domain"],
)
DOMAIN_LATENCY = Gauge(
    "crawlstream_domain_latency_seconds", "Mean response time of these downloads.", ["domain"]
)
PROXIES = Gauge(
    "crawlstream_proxies",
    "Number of proxies by pool and state: `ok`, `trial` (was out, no answer yet), `out` (left"
    " alone after failures), `banned`, `disabled`; pools that are disabled have none.",
    ["pool", "state"],
)
PROXY_BUDGET = Gauge(
    "crawlstream_proxy_budget_left_ratio",
    "Fraction of the day's budget that is left, for pools with a budget.",
    ["pool"],
)
PURSE_SPENT = Gauge(
    "crawlstream_purse_spent",
    "Money that a purse has spent or reserved in all, in units of its currency.",
    ["purse", "currency"],
)
PURSE_BUDGET = Gauge(
    "crawlstream_purse_budget_left_ratio",
    "Fraction of a purse's budget that is left: of the `day` (UTC), or `total`. Budgets of 0 have"
    " none.",
    ["purse", "budget"],
)
PURSE_DISTRUSTED = Gauge(
    "crawlstream_purse_distrusted_sites",
    "Number of sites that a purse does not pay, because they have charged more than their price.",
    ["purse"],
)
SHELVED = Gauge("crawlstream_shelved_entries", "Number of queued pages that are on the shelf.")
SHELF_CHUNKS = Gauge(
    "crawlstream_shelf_chunks", "Number of chunks on the shelf, if that is a server of its own."
)
SHELF_PAGES = Counter(
    "crawlstream_shelf_pages",
    "Number of pages that redis-monitors carried, by outcome: `shelved`, `restocked`, `lost` (the"
    " shelf did not have them any more).",
    ["outcome"],
)
REAPED = Counter("crawlstream_reaped_workers", "Number of dead workers whose leases were revoked.")
RUNS = Counter(
    "crawlstream_runs", "Number of published run events (starts and endings).", ["event"]
)
DEAD_LETTERS = Counter(
    "crawlstream_dead_letters",
    "Number of pages that redis-monitors failed as dead letters, by reason.",
    ["reason"],
)
REPLIES_WITHOUT_PAGE = Counter(
    "crawlstream_replies_without_page",
    "Number of replies by redis-monitors to clients that waited for a page, by reason: `expired`,"
    " `stopped` or `no_result` if the run has ended without it, or that of a dead letter.",
    ["reason"],
)
SCHEDULES = Gauge("crawlstream_schedules", "Number of schedules.")
SCHEDULES_SKIPPING = Gauge(
    "crawlstream_schedules_skipping",
    "Number of schedules that did not fire three times in a row or more, though they are not"
    " paused.",
)
SCHEDULE_FIRES = Counter(
    "crawlstream_schedule_fires",
    "Number of firings by outcome: `fired`, `skipped` (the last crawl was running, or the schedule"
    " was paused), `missed` (too late). A request that was skipped as `pending` does not count.",
    ["outcome"],
)
SCHEDULE_LATE = Histogram(
    "crawlstream_schedule_late_seconds",
    "Seconds from the time that a firing was due to the start of its feed.",
    buckets=(1, 2, 5, 10, 30, 60, 300, 3600),
)
NOTICES = Counter(
    "crawlstream_notices",
    "Number of notifications by channel (`webhook`, `mail`) and outcome: `sent`, `failed` (an"
    " attempt that is repeated), `dropped` (too old, refused for good, or too many waiting).",
    ["channel", "outcome"],
)
