"""Prometheus metrics of a pipeline process."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from prometheus_client import Counter, Gauge, Histogram

from pipeline_service.formats import payloads
from pipeline_service.records.account import RecordTally

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
    "Number of finished segments, by what ended them: bytes, records, files, age, end, spool (its"
    " disk is nearly full), or again (left unfinished by another process).",
    ["pipeline", "why"],
)
REVISITS = Counter(
    "crawlstream_pipeline_revisits",
    "Number of pages of WARC files whose payload another record has.",
    ["pipeline"],
)
CLAIMS_LOST = Counter(
    "crawlstream_pipeline_claims_lost",
    "Number of segments that another process had claimed, or committed, first.",
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
RUNS = Counter(
    "crawlstream_pipeline_runs",
    "Number of runs that have ended and whose pages are stored: complete (a result was read of each"
    " page that is done) or incomplete.",
    ["pipeline", "outcome"],
)
RUNS_JUDGED = Counter(
    "crawlstream_pipeline_runs_judged",
    "Number of runs whose items were judged by `expect`: met or missed.",
    ["pipeline", "outcome"],
)
RUN_WAITING_SECONDS = Gauge(
    "crawlstream_pipeline_run_waiting_seconds",
    "Time since the earliest end of a run whose pages are not all stored, as far as the process has"
    " followed it; 0 if there is none.",
    ["pipeline"],
)
ITEMS = Gauge(
    "crawlstream_pipeline_items",
    "Number of items of the last run that was stored.",
    ["pipeline"],
)
SCORE = Gauge(
    "crawlstream_pipeline_score",
    "Mean share of valid items of the last run that was stored, over its required fields.",
    ["pipeline"],
)
FIELD_PRESENT = Gauge(
    "crawlstream_pipeline_field_present_ratio",
    "Share of the items of the last run that was stored which have a field.",
    ["pipeline", "field"],
)
FIELD_VALID = Gauge(
    "crawlstream_pipeline_field_valid_ratio",
    "Share of the items of the last run that was stored which have a field, and one that is valid.",
    ["pipeline", "field"],
)
PAGES_HEARD = Counter(
    "crawlstream_visits",
    "Number of answers about pages of a memory, by their outcome: new, changed, unchanged, gone,"
    " moved or failed.",
    ["pipeline", "outcome"],
)
VISITS_FED = Counter(
    "crawlstream_visits_fed",
    "Number of visits that were fed as seeds.",
    ["pipeline"],
)
VISITS_DUE = Gauge(
    "crawlstream_visits_due",
    "Number of pages of a memory that are due for a visit, counted up to 100,000.",
    ["pipeline"],
)
VISITS_IN_FLIGHT = Gauge(
    "crawlstream_visits_in_flight",
    "Number of pages whose visit was fed and has no outcome yet.",
    ["pipeline"],
)
VISITS_LATE_SECONDS = Gauge(
    "crawlstream_visits_late_seconds",
    "Time since the first of the pages that are due should have been visited; 0 if there is none.",
    ["pipeline"],
)
FRESHNESS = Gauge(
    "crawlstream_visits_freshness_ratio",
    "Estimated share of the pages of a memory that have not changed since they were seen.",
    ["pipeline"],
)
CHANGES_PUBLISHED = Counter(
    "crawlstream_changes_published",
    "Number of events `page_changed` that were published.",
    ["pipeline"],
)
CHANGES_STALLED_SECONDS = Gauge(
    "crawlstream_changes_stalled_seconds",
    "Time since this process last published changes of pages, or found none to publish.",
    ["pipeline"],
)
WEBHOOK_CHANGES = Counter(
    "crawlstream_webhook_changes",
    "Number of changes by outcome at the webhook of a memory: `sent`, `failed` (an attempt that is"
    " repeated), `undelivered` (not taken for 24 hours, or too many waited).",
    ["pipeline", "outcome"],
)
WEBHOOK_OLDEST_SECONDS = Gauge(
    "crawlstream_webhook_oldest_seconds",
    "Time for which the oldest change has waited for the webhook of a memory; 0 if none waits.",
    ["pipeline"],
)
_OF_LAST_RUN = (ITEMS, SCORE, FIELD_PRESENT, FIELD_VALID)


def note_records(pipeline: str, tally: RecordTally) -> None:
    """Count records whose outcome is in the store."""
    for outcome, count in (
        ("delivered", tally.delivered),
        ("repeats", tally.repeats),
        ("filtered", tally.filtered.total()),
        ("undelivered", tally.undelivered.total()),
    ):
        RECORDS.labels(pipeline, outcome).inc(count)
    if revisits := tally.marks[payloads.REVISITS]:
        REVISITS.labels(pipeline).inc(revisits)
    for counter, reasons in ((UNDELIVERED, tally.undelivered), (FILTERED, tally.filtered)):
        for reason, count in reasons.items():
            counter.labels(pipeline, reason).inc(count)


def note_learnt(pipeline: str, outcomes: Mapping[str, int]) -> None:
    """Count what a memory has learnt."""
    for outcome, count in outcomes.items():
        PAGES_HEARD.labels(pipeline, outcome).inc(count)


def note_course(
    pipeline: str, *, due: int, in_flight: int, late_s: float, fresh: float | None
) -> None:
    """Show how visits go on."""
    VISITS_DUE.labels(pipeline).set(due)
    VISITS_IN_FLIGHT.labels(pipeline).set(in_flight)
    VISITS_LATE_SECONDS.labels(pipeline).set(late_s)
    if fresh is not None:
        FRESHNESS.labels(pipeline).set(fresh)


def begin_runs(pipeline: str) -> None:
    """Set all counters to 0: otherwise an alarm misses the first of a kind."""
    for counter, outcomes in ((RUNS, ("complete", "incomplete")), (RUNS_JUDGED, ("met", "missed"))):
        for outcome in outcomes:
            counter.labels(pipeline, outcome)


def note_run(pipeline: str, quality: Mapping[str, Any], *, is_complete: bool) -> None:
    """Count a run whose pages are stored, and show how good its items are (`Judge.record`)."""
    RUNS.labels(pipeline, "complete" if is_complete else "incomplete").inc()
    if "ok" in quality:
        RUNS_JUDGED.labels(pipeline, "met" if quality["ok"] else "missed").inc()
    if not quality:
        return
    _forget_quality(pipeline)
    ITEMS.labels(pipeline).set(quality["items"])
    if "score" in quality:
        SCORE.labels(pipeline).set(quality["score"])
    for name, told in quality["fields"].items():
        for gauge, share in ((FIELD_PRESENT, "present"), (FIELD_VALID, "valid")):
            if share in told:
                gauge.labels(pipeline, name).set(told[share])


def note_waiting(pipeline: str, since: float | None) -> None:
    """Show for how long a run has waited, since a time in epoch s; None: there is none."""
    waited_s = 0 if since is None else max(time.time() - since, 0)
    RUN_WAITING_SECONDS.labels(pipeline).set(waited_s)


def forget_runs(pipeline: str) -> None:
    """Show nothing of runs any more: another process does."""
    _forget_quality(pipeline)
    _remove(RUN_WAITING_SECONDS, pipeline)


def _forget_quality(pipeline: str) -> None:
    for gauge in _OF_LAST_RUN:
        _remove(gauge, pipeline)


def _remove(gauge: Gauge, pipeline: str) -> None:
    gauge.remove_by_labels({"pipeline": pipeline})
