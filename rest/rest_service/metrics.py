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
SCRAPES = Counter(
    "crawlstream_rest_scrapes",
    "Answers to scrapes by outcome: done, failed, recent, late (202), refused.",
    ["outcome"],
)
SCRAPE_SECONDS = Histogram(
    "crawlstream_rest_scrape_seconds",
    "Duration of scrapes that were answered with their page, without the site's own time.",
    buckets=(0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 60),
)
ANNOUNCED = Counter(
    "crawlstream_rest_indexnow",
    "Announcements of changed pages by outcome: accepted, late (202), refused.",
    ["outcome"],
)
EXTRACT_WORKERS_LOST = Counter(
    "crawlstream_rest_extract_workers_lost",
    "Worker processes that a scraped page has ended, by cause: killed, memory, timeout.",
    ["cause"],
)
WAITING = Gauge(
    "crawlstream_rest_waiting", "Number of requests that are waiting for the cluster's reply."
)
