"""What a kafka-monitor tells Prometheus."""

from __future__ import annotations

from prometheus_client import Counter

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
