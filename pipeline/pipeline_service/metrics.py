"""What a pipeline process tells Prometheus."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from pipeline_service.account import Tally

RECORDS = Counter(
    "crawlstream_pipeline_records",
    "Number of records of finished segments, by outcome: delivered, repeats, filtered or"
    " undelivered.",
    ["pipeline", "outcome"],
)
UNDELIVERED = Counter(
    "crawlstream_pipeline_undelivered",
    "Number of records on `undelivered`, by reason.",
    ["pipeline", "reason"],
)
FILTERED = Counter(
    "crawlstream_pipeline_filtered",
    "Number of pages that the pipeline does not want, by reason: a key of `where`, or a stage.",
    ["pipeline", "reason"],
)
STAGE_SECONDS = Histogram(
    "crawlstream_pipeline_stage_seconds",
    "Seconds that a stage takes for one page.",
    ["pipeline", "stage"],
    buckets=(0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30),
)
WORKER_DEATHS = Counter(
    "crawlstream_pipeline_worker_deaths",
    "Number of worker processes of stages that were lost, by cause: killed, memory or timeout.",
    ["pipeline", "cause"],
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


def note_records(pipeline: str, tally: Tally) -> None:
    """Count records whose outcome is in the store."""
    for outcome, count in (
        ("delivered", tally.delivered),
        ("repeats", tally.repeats),
        ("filtered", tally.filtered.total()),
        ("undelivered", tally.undelivered.total()),
    ):
        RECORDS.labels(pipeline, outcome).inc(count)
    for counter, reasons in ((UNDELIVERED, tally.undelivered), (FILTERED, tally.filtered)):
        for reason, count in reasons.items():
            counter.labels(pipeline, reason).inc(count)
