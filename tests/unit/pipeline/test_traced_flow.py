"""Spans of pipelines: of stages when they have ended, of writes when the store has the page."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from crawlstream.bus.records import Batch, OutOfRange, Record
from crawlstream_traces.context import Span
from crawlstream_traces.sender import SpanSender
from pipeline_service.records.account import Account
from pipeline_service.records.judging import Judged, Wanted, judge
from pipeline_service.sinks.sink import SinkPosition, SinkRefused
from pipeline_service.spec.config import Pipeline, read
from pipeline_service.stages.chain import PageOutcome
from pipeline_service.traced_flow import MOST_WRITES, TracedFlow, TracedStaging
from support.pipelines.results import record

TRACE, SPAN = "4" * 32, "7" * 16
HEADER = f"00-{TRACE}-{SPAN}-01".encode()


class _Nowhere:
    def send(self, spans: Sequence[Span]) -> bool:
        """Take nothing: no sender runs."""
        raise NotImplementedError

    def stop(self) -> None:
        """Nothing is being sent."""


class Source:
    """Where a flow reads on."""

    def __init__(self) -> None:
        self.sought: list[tuple[int, int]] = []

    def seek(self, partition: int, position: int) -> None:
        """Note where."""
        self.sought.append((partition, position))

    async def commit(self, _: Mapping[int, int]) -> None:
        """Commit nothing."""


class Sink:
    """A sink whose store lags behind what it was given."""

    trouble, oldest_ms, stored = "", 0, 0
    topics: Mapping[int, str] = {0: "id"}

    def __init__(self) -> None:
        self.durable: int | None = None
        self.elsewhere: int | None = None
        """Position that another process has stored; None: none has."""
        self.refused: set[int] = set()

    @property
    def standings(self) -> Mapping[int, SinkPosition]:
        """How far the store is."""
        return {0: SinkPosition(self.durable, Account())}

    async def position(self, _topic_id: str, _partition: int) -> int | None:
        """Where to read from."""
        return self.durable

    async def write(self, _batch: Batch, judged: Sequence[Judged], _live: object) -> int | None:
        """Take the records, unless one is refused or another process has written."""
        if refused := self.refused & {each.record.offset for each in judged}:
            self.refused -= refused
            raise SinkRefused(dict.fromkeys(refused, "no"))
        return self.elsewhere

    def knows(self, _partition: int, _page_id: str) -> bool:
        """Know nothing."""
        return False

    async def tick(self, _live: object) -> Mapping[int, int]:
        """Nothing is old."""
        return {}

    async def end(self, _live: object) -> None:
        """Nothing is open."""

    async def skip(self, where: OutOfRange, _live: object) -> int:
        """Go on."""
        return where.log_start


class Undelivered:
    """Topic of undelivered records."""

    async def publish(self, _: Sequence[Judged]) -> None:
        """Publish nowhere."""

    async def mark(self, _: OutOfRange) -> None:
        """Mark nothing."""


def pipeline(stages: str = "") -> Pipeline:
    """Return a pipeline, perhaps with stages in a thread."""
    text = f"""
[pipeline.a]
workers = 0
{stages}
sink = {{kind = "files", path = "/x", format = "jsonl"}}
"""
    return read(text, {}, Path())["a"]


class Ground:
    """A flow with traces, whose source and sink the test moves."""

    def __init__(self) -> None:
        self.spans = SpanSender(_Nowhere())
        self.sink, self.source = Sink(), Source()
        described = pipeline()
        parts: tuple[Any, ...] = (described, self.sink, Undelivered())
        staging = TracedStaging(described, spans=self.spans)
        self.flow = TracedFlow(*parts, staging=staging, spans=self.spans)

    async def take(self, start: int, *headers: bytes) -> bool:
        """Have the flow take records with these headers, from an offset on."""
        records = [_record(start + n, header) for n, header in enumerate(headers)]
        batch = Batch("id", 0, start, start + len(records), records)
        source: Any = self.source
        return await self.flow._take(source, batch)

    async def stored(self, position: int) -> list[int]:
        """Have the store be at a position; return the lengths of the writes that end, in ms."""
        self.sink.durable = position
        source: Any = self.source
        await self.flow._commit(source)
        return [round((s.end_ns - s.start_ns) / 1e6) for s in self.taken()]

    def taken(self) -> list[Span]:
        """Return the spans that wait to be sent, and forget them."""
        found = list(self.spans._waiting)
        self.spans._waiting.clear()
        return found


def _record(offset: int, header: bytes, **about: Any) -> Record:
    return Record("t", 0, offset, 1, None, record(offset, **about), traceparent=header)


async def test_each_stage_that_a_page_comes_to_has_a_span() -> None:
    """Below the page's span, one after the other; the last one says why the page is undelivered."""
    spans = SpanSender(_Nowhere())
    uses = ["page", "python:support.pipelines.shop:by_body", "language"]
    stages = ", ".join(f'{{use = "{use}"}}' for use in uses)
    described = pipeline(f"stage = [{stages}]")
    staging = TracedStaging(described, spans=spans)
    await staging.open()
    try:
        records = [_record(n, head, body=b"raise") for n, head in enumerate((HEADER, b"", b"x"))]
        batch = Batch("id", 0, 0, 3, records)
        await staging.run(judge(described, batch), lambda _: None, lambda _: False)
    finally:
        await staging.close()
    found = list(spans._waiting)
    assert [(s.name, s.error) for s in found] == [
        ("stage.page", ""),
        ("stage.by_body", "stage_failed"),
    ]
    assert {(s.trace_id, s.parent_id) for s in found} == {(TRACE, SPAN)}
    for before, after in pairwise(found):
        assert before.start_ns <= before.end_ns == after.start_ns <= after.end_ns


async def test_a_write_lasts_until_the_store_has_the_page() -> None:
    """A sink may keep pages in a segment for long: only the store's own position ends the span."""
    ground = Ground()
    assert await ground.take(0, HEADER, b"", HEADER)
    assert await ground.stored(0) == []
    await asyncio.sleep(0.02)
    assert [length >= 20 for length in await ground.stored(1)] == [True]
    assert len(await ground.stored(3)) == 1
    assert await ground.stored(3) == []


async def test_pages_that_another_process_has_stored_have_no_write() -> None:
    """Forgets the writes of a partition that is read on elsewhere, or was lost meanwhile."""
    ground = Ground()
    await ground.take(0, HEADER)
    ground.sink.elsewhere = 5
    assert not await ground.take(1, HEADER)
    assert ground.source.sought == [(0, 5)]
    assert await ground.stored(5) == []

    ground.sink.elsewhere = None
    await ground.take(5, HEADER)
    await ground.flow.locate("id", 0)
    assert await ground.stored(9) == []


async def test_the_write_of_a_refused_record_says_so() -> None:
    """The outcome is the one after the sink has refused it; the other pages are delivered."""
    ground = Ground()
    ground.sink.refused = {1}
    await ground.take(0, HEADER, HEADER)
    ground.sink.durable = 2
    ground.flow._end_writes()
    told = [(s.attributes["crawlstream.outcome"], s.error) for s in ground.taken()]
    assert told == [("delivered", ""), ("undelivered", "sink_refused")]


async def test_the_number_of_writes_that_wait_is_limited() -> None:
    """The oldest are forgotten: a segment may wait for hours."""
    ground = Ground()
    await ground.take(0, *[HEADER] * 200)
    (writes,) = ground.flow._writes.values()
    writes.extend(list(writes) * (MOST_WRITES // 200))
    await ground.take(200, HEADER)
    assert len(writes) == MOST_WRITES
    assert writes[-1].judged.record.offset == 200


def test_attempts_at_a_page_have_spans_of_their_own() -> None:
    """A page is read again after a crash: an id that repeats with other times would mislead."""
    spans = SpanSender(_Nowhere())
    staging = TracedStaging(pipeline('stage = [{use = "page"}]'), spans=spans)
    judged = judge(staging.pipeline, Batch("id", 0, 0, 1, [_record(0, HEADER)]))[0]
    assert isinstance(judged, Wanted)
    for at in (1.0, 2.0):
        staging._after(replace(judged), PageOutcome(times=[at, at + 0.5]))
    assert len({span.span_id for span in spans._waiting}) == 2


@pytest.mark.parametrize("header", [b"", b"0" * 55, HEADER[:-1] + b"0"])
async def test_a_header_that_names_no_sampled_span_is_ignored(header: bytes) -> None:
    """Any producer may write it."""
    ground = Ground()
    await ground.take(0, header)
    assert await ground.stored(1) == []
