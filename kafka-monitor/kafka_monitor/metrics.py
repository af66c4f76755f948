"""Prometheus metrics of a kafka-monitor."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

RECORDS = Counter(
    "crawlstream_intake_records",
    "Number of records of `incoming` that were processed, including rejected ones.",
)
REQUESTS = Counter(
    "crawlstream_requests", "Number of requests, by class name of their handler.", ["handler"]
)
REPEATED = Counter(
    "crawlstream_seeds_repeated",
    "Number of records of schedules (or of clients that name an occasion) that were fed again and"
    " dropped.",
)
REJECTED = Counter(
    "crawlstream_rejected",
    "Number of rejected records, by reason.",
    ["reason"],
)
PAUSED = Gauge(
    "crawlstream_partition_paused",
    "1 for each partition of `incoming` that is paused until an operator decides, because Kafka"
    " has lost records that had taken effect.",
    ["partition"],
)
