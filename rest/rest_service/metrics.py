"""What a REST process tells Prometheus."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

REQUESTS = Counter(
    "crawlstream_rest_requests", "HTTP requests answered.", ["method", "route", "status"]
)
SECONDS = Histogram("crawlstream_rest_seconds", "Time to the end of an answer.", ["route"])
WAITING = Gauge("crawlstream_rest_waiting", "Requests that wait for the cluster's reply.")
