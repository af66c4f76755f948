"""Metrics of a REST process for Prometheus."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

REQUESTS = Counter(
    "crawlstream_rest_requests", "Number of HTTP requests answered.", ["method", "route", "status"]
)
SECONDS = Histogram(
    "crawlstream_rest_seconds", "Duration of a request until its response is complete.", ["route"]
)
DIRECTORY_EXPIRES = Gauge(
    "crawlstream_signing_directory_expires_seconds",
    "Seconds for which the published directory of signing keys is still valid.",
    ["agent"],
)
WAITING = Gauge(
    "crawlstream_rest_waiting", "Number of requests that are waiting for the cluster's reply."
)
