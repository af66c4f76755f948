"""What a kafka-monitor tells Prometheus."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

RECORDS = Counter(
    "crawlstream_intake_records", "Records of `incoming` that were taken, rejected ones included."
)
REQUESTS = Counter(
    "crawlstream_requests", "Requests by the class name of the handler that took them.", ["handler"]
)
REJECTED = Counter(
    "crawlstream_rejected",
    "Records that took no effect, by the reason they came back with.",
    ["reason"],
)
PAUSED = Gauge(
    "crawlstream_partition_paused",
    "1 for each partition of `incoming` that waits for a person: Kafka has lost records of it that "
    "had taken effect.",
    ["partition"],
)
