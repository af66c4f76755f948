"""Intake with traces: sampled seeds get theirs, and a span when they have entered the frontier."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace

from crawlstream.bus.records import Record
from crawlstream.model.effects import Effect, IntakeResult, Seed
from crawlstream.model.url import entry_id
from crawlstream.plugins.handlers import Router
from crawlstream.wire import stored
from crawlstream_traces.context import (
    Span,
    SpanPlace,
    intake_id,
    is_in_share,
    parent_in,
    shown_url,
    stored_trace,
    trace_in,
)
from crawlstream_traces.sender import SpanSender
from kafka_monitor.poison import PoisonDetector
from kafka_monitor.rejections import RejectedRecord
from kafka_monitor.request_intake import (
    AppliedOffsets,
    IntakeTarget,
    JudgedBatch,
    RequestIntake,
)

_MARK = b'"@trace"'
"""Bytes in each entry that stores a trace; few other entries contain them."""


class Tracing:
    """Gives seeds the traces of their clients, and makes the spans of sampled seeds."""

    def __init__(self, sender: SpanSender, share: float) -> None:
        self._sender = sender
        self._share = share

    def traced(self, seed: Seed, record: Record) -> Seed:
        """Return a seed with the trace of its client in its entry, if there is one."""
        traceparent = record.traceparent.decode("latin-1")
        if not traceparent or parent_in(traceparent) is None:
            return seed
        trace = stored_trace(traceparent, time.time_ns() // 1_000_000)
        entry = replace(stored.decode_entry(seed.entry), trace=trace)
        return replace(seed, entry=stored.encode_entry(entry))

    def entered(self, seed: Seed, record: str, result: IntakeResult) -> None:
        """Make the span of a seed if it is sampled: from its record's own time until now.

        A seed whose run is unknown has none, unless it has a client's trace: its put was repeated.
        """
        if _MARK in seed.entry:
            theirs = trace_in(stored.decode_entry(seed.entry).trace)
            place = theirs.parent if theirs else None
        elif (run := result.runs.get(seed.offset)) is not None:
            page_id = entry_id(seed.crawl, run, seed.fingerprint, record)
            place = SpanPlace(page_id, "") if is_in_share(page_id, self._share) else None
        else:
            return
        if place is not None:
            self._sender.add(_span(seed, record, place, is_refused=seed.offset in result.refused))


def _span(seed: Seed, record: str, place: SpanPlace, *, is_refused: bool) -> Span:
    return Span(
        name="intake",
        trace_id=place.trace_id,
        span_id=intake_id(place.trace_id, record),
        parent_id=place.span_id,
        start_ns=seed.timestamp_ms * 1_000_000,
        end_ns=time.time_ns(),
        attributes={
            "url.full": shown_url(stored.decode_entry(seed.entry).url),
            "crawlstream.appid": seed.crawl.appid,
            "crawlstream.crawlid": seed.crawl.crawlid,
            "crawlstream.spiderid": seed.crawl.spiderid,
            "crawlstream.domain": seed.domain,
            "crawlstream.record": record,
        },
        error="refused" if is_refused else "",
    )


class TracedIntake(RequestIntake):
    """Judges batches and puts them into the frontier, with traces."""

    def __init__(
        self,
        frontier: IntakeTarget,
        router: Router,
        recovery: AppliedOffsets,
        breaker: PoisonDetector,
        *,
        tracing: Tracing,
    ) -> None:
        super().__init__(frontier, router, recovery, breaker)
        self._tracing = tracing

    async def put(self, judged: JudgedBatch) -> IntakeResult:
        """As without traces; the spans of sampled seeds end here."""
        result = await super().put(judged)
        records = judged.batch.records
        prefix = f"{records[0].topic}-{records[0].partition}-" if records else ""
        for effect in judged.effects:
            if isinstance(effect, Seed):
                self._tracing.entered(effect, f"{prefix}{effect.offset}", result)
        return result

    async def _judge_one(
        self, record: Record, handled: Counter[str]
    ) -> Effect | RejectedRecord | None:
        verdict = await super()._judge_one(record, handled)
        return self._tracing.traced(verdict, record) if isinstance(verdict, Seed) else verdict

    async def _judge_again(self, record: Record) -> Effect | None:
        effect = await super()._judge_again(record)
        return self._tracing.traced(effect, record) if isinstance(effect, Seed) else effect
