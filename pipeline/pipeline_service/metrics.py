"""What a pipeline process tells Prometheus."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from pipeline_service.account import Tally

RECORDS = Counter(
    "crawlstream_pipeline_records",
    "Number of records whose outcome is stored, by outcome: delivered, repeats, filtered or"
    " undelivered.",
    ["pipeline", "outcome"],
)
UNDELIVERED = Counter(
    "crawlstream_pipeline_undelivered",
    "Number of records on `undelivered`, by reason.",
    ["pipeline", "reason"],
)
SEGMENTS = Counter(
    "crawlstream_pipeline_segments",
    "Number of finished segments, by what ended them: bytes, records, files, age, end, or again"
    " (left unfinished by another process).",
    ["pipeline", "why"],
)
CLAIMS_LOST = Counter(
    "crawlstream_pipeline_claims_lost",
    "Number of segments that another process had claimed first.",
    ["pipeline"],
)
LAG_RECORDS = Gauge(
    "crawlstream_pipeline_lag_records",
    "Number of records of a partition that are not stored yet.",
    ["pipeline", "partition"],
)
LAG_SECONDS = Gauge(
    "crawlstream_pipeline_lag_seconds",
    "Age of the oldest record that is read and not stored yet; 0 if there is none.",
    ["pipeline"],
)
BROKEN = Gauge(
    "crawlstream_pipeline_broken",
    "1 while a pipeline has stopped because only an operator can help; /health says why.",
    ["pipeline"],
)
SINK_SECONDS = Histogram(
    "crawlstream_pipeline_sink_seconds",
    "Duration of a transaction of the sink, until it succeeds, in seconds.",
    ["pipeline"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)


def note_records(pipeline: str, tally: Tally) -> None:
    """Count records whose outcome is in the store."""
    for outcome, count in (
        ("delivered", tally.delivered),
        ("repeats", tally.repeats),
        ("filtered", tally.filtered.total()),
        ("undelivered", tally.undelivered.total()),
    ):
        RECORDS.labels(pipeline, outcome).inc(count)
    for reason, count in tally.undelivered.items():
        UNDELIVERED.labels(pipeline, reason).inc(count)
