"""Pipelines with traces: spans of the stages and of the write of sampled pages.

The record of a sampled page names its span in the header ``traceparent``, below which they belong.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from crawlstream.boot.settings import Settings
from crawlstream.bus.protocols import Source
from crawlstream.bus.records import Batch, Record
from crawlstream.model.process import Process
from crawlstream_traces.context import Span, SpanPlace, parent_in, span_id_of
from crawlstream_traces.sender import SpanSender, open_sender
from pipeline_service.flow import Flow
from pipeline_service.records.judging import Judged, Undeliverable, Wanted
from pipeline_service.sinks.sink import SinkRefused
from pipeline_service.spec.config import Pipeline
from pipeline_service.stages.chain import PageOutcome
from pipeline_service.staging import Staging

MOST_WRITES = 2048
"""Maximum number of sampled pages of a partition that are not stored; older ones have no spans."""


class TracedStaging(Staging):
    """Stages of a pipeline with traces."""

    def __init__(self, pipeline: Pipeline, *, spans: SpanSender) -> None:
        super().__init__(pipeline)
        self._spans = spans

    def _after(self, judged: Wanted, outcome: PageOutcome) -> Judged:
        if place := _place_of(judged.record):
            epoch_s = time.time() - time.monotonic()
            times = pairwise(round((epoch_s + at) * 1e9) for at in outcome.times)
            for stage, (began_ns, ended_ns) in zip(self.pipeline.stage, times, strict=False):
                self._spans.add(
                    _span(
                        *(f"stage.{stage.label}", place, self.pipeline, judged),
                        began_ns=began_ns,
                        ended_ns=ended_ns,
                        error=outcome.reason if outcome.stage == stage.label else "",
                    )
                )
        return super()._after(judged, outcome)


@dataclass(frozen=True, slots=True)
class _Write:
    """A sampled page on its way into the store."""

    judged: Judged
    place: SpanPlace
    began_ns: int


class TracedFlow(Flow):
    """Loop of a pipeline with traces: a write ends when the page is in the store for good."""

    def __init__(self, *about: Any, spans: SpanSender, **further: Any) -> None:
        super().__init__(*about, **further)
        self._spans = spans
        self._judged: Sequence[Judged] = ()
        """Records that are being written, as the sink has judged them."""
        self._writes: dict[int, deque[_Write]] = defaultdict(lambda: deque(maxlen=MOST_WRITES))

    async def locate(self, topic_id: str, partition: int) -> int | None:
        """As without traces; another process may have written what was read here."""
        self._writes.pop(partition, None)
        return await super().locate(topic_id, partition)

    def _read_on(self, source: Source, partition: int, position: int) -> None:
        self._writes.pop(partition, None)
        super()._read_on(source, partition, position)

    async def _write(self, batch: Batch, judged: Sequence[Judged]) -> int | None:
        began_ns, self._judged = time.time_ns(), judged
        elsewhere = await super()._write(batch, judged)
        if elsewhere is None:
            for each in self._judged:
                if place := _place_of(each.record):
                    self._writes[batch.partition].append(_Write(each, place, began_ns))
        return elsewhere

    def _without(self, judged: Sequence[Judged], refused: SinkRefused) -> Sequence[Judged]:
        self._judged = super()._without(judged, refused)
        return self._judged

    async def _commit(self, source: Source) -> None:
        self._end_writes()
        await super()._commit(source)

    def _end_writes(self) -> None:
        """Make the spans of the pages that are in the store for good now."""
        standings, now_ns = self.sink.standings, time.time_ns()
        for partition, writes in self._writes.items():
            standing = standings.get(partition)
            position = standing.position if standing else None
            while writes and writes[0].judged.record.offset < (position or 0):
                write = writes.popleft()
                is_undelivered = isinstance(write.judged, Undeliverable)
                self._spans.add(
                    _span(
                        *("write", write.place, self.pipeline, write.judged),
                        began_ns=write.began_ns,
                        ended_ns=now_ns,
                        error=write.judged.reason if is_undelivered else "",
                        outcome=write.judged.outcome,
                    )
                )


class Traced(NamedTuple):
    """Makers of the parts of a pipeline, with traces or without."""

    staging: Callable[[Pipeline], Staging] = Staging
    flow: Callable[..., Flow] = Flow


@asynccontextmanager
async def sending(settings: Settings, process: Process) -> AsyncIterator[Traced]:
    """Send spans for the length of the block, if traces are on; ConfigError, MissingExtra."""
    spans = open_sender(settings.traces, process)
    if spans is None:
        yield Traced()
        return
    try:
        yield Traced(partial(TracedStaging, spans=spans), partial(TracedFlow, spans=spans))
    finally:
        await asyncio.to_thread(spans.close)


def _place_of(record: Record) -> SpanPlace | None:
    return parent_in(record.traceparent.decode()) if record.traceparent else None


def _span(
    name: str,
    place: SpanPlace,
    pipeline: Pipeline,
    judged: Judged,
    *,
    began_ns: int,
    ended_ns: int,
    error: str,
    outcome: str = "",
) -> Span:
    """Return a span whose id is that of one attempt: a page may be read again after a crash."""
    attributes = {"crawlstream.id": judged.id, "crawlstream.pipeline": pipeline.name}
    return Span(
        name=name,
        trace_id=place.trace_id,
        span_id=span_id_of(place.span_id, pipeline.name, name, str(began_ns)),
        parent_id=place.span_id,
        start_ns=began_ns,
        end_ns=ended_ns,
        attributes=attributes | ({"crawlstream.outcome": outcome} if outcome else {}),
        error=error,
    )
