"""Metrics of traces."""

from __future__ import annotations

from prometheus_client import Counter

SENT = Counter("crawlstream_spans_sent", "Number of spans that the collector has accepted.")
DROPPED = Counter(
    "crawlstream_spans_dropped",
    "Number of spans that were dropped: the collector did not take them, or too many waited.",
)
