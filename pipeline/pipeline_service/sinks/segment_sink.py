"""Sink that gathers pages in segments: a range of offsets of a partition, encoded in the spool.

A segment that is long or old enough is closed, and stored as a whole. `FilesSink` stores it as
files, by claims; `LakeSink` adds its files to a table, by a commit. Both know which process stores
a segment: one that comes late drops its own, and reads on from the position that others have
reached.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import structlog

from crawlstream.boot.failpoints import failpoint
from crawlstream.boot.liveness import Liveness
from crawlstream.bus.records import Batch, OutOfRange
from crawlstream.store.store import Store
from pipeline_service.formats.columns import Column
from pipeline_service.formats.files import Crawl
from pipeline_service.formats.payloads import KnownPayloads
from pipeline_service.metrics import CLAIMS_LOST, SEGMENTS, note_records
from pipeline_service.records.account import Account, summed
from pipeline_service.records.judging import Judged
from pipeline_service.records.rows import Shape
from pipeline_service.sinks.files.claims import topic_name
from pipeline_service.sinks.files.repeats import Repeats, short
from pipeline_service.sinks.files.segments import (
    Segment,
    SegmentSpec,
    Spool,
    SpoolUnavailable,
    Written,
)
from pipeline_service.sinks.sink import SinkPosition

_SPOOL_PAUSE_S = 1.0
_PUT_S = 900.0
"""For a file to arrive in the store, however slow that is."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSettings:
    """How the segments of a pipeline are made."""

    pipeline: str
    """Its name."""
    limits: SegmentSpec
    spool: Spool
    columns: Sequence[Column]
    crawl: Crawl
    shape: Shape | None = None
    """Shape of rows that are not the pages themselves."""


@dataclass(slots=True)
class SegmentPart:
    """State of a partition of the source, as far as this process knows it."""

    number: int
    topic_id: str = ""
    """Empty: its position is not known."""
    next: int | None = None
    """Offset of the next record to be written; None: the oldest."""
    durable: int | None = None
    """Offset of the first record that is not in the store for good."""
    account: Account = field(default_factory=Account)
    """Account of all stored segments."""
    known: Repeats = field(default_factory=lambda: Repeats(0))
    segment: Segment | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def until(self) -> int | None:
        """Return where the segment has to end, because it is made again; None: anywhere."""
        return None


@dataclass(frozen=True, slots=True)
class ClosedSegment:
    """A segment whose files are complete in the spool."""

    start: int
    next: int
    ids: bytes
    written: Sequence[Written]
    account: Account
    """Account of the partition up to its end."""
    payloads: KnownPayloads | None = None
    """Payloads that its files hold, and those that they refer to."""


P = TypeVar("P", bound=SegmentPart)


class SegmentSink(ABC, Generic[P]):
    """Segments of one pipeline."""

    def __init__(self, settings: SegmentSettings) -> None:
        self.parts: dict[int, P] = {}
        self.trouble = ""
        """Reason why pages cannot be written; empty: they can."""
        self.stored = 0
        """Records of the segments that were stored here."""
        self._settings = settings

    @property
    def topics(self) -> Mapping[int, str]:
        """UUID of the source, by partition whose position is known here."""
        return {n: part.topic_id for n, part in self.parts.items() if part.topic_id}

    @property
    def standings(self) -> Mapping[int, SinkPosition]:
        """Return how far those partitions are in the store."""
        return {n: SinkPosition(p.durable, p.account) for n, p in self.parts.items() if p.topic_id}

    @property
    def oldest_ms(self) -> int:
        """Time of the oldest record that is in an open segment; 0: there is none."""
        segments = [part.segment for part in self.parts.values() if part.segment]
        return min((each.first_ms for each in segments if each.first_ms), default=0)

    async def position(self, topic_id: str, number: int) -> int | None:
        """Return where a partition is to be read from, None: its oldest record; drops what is open.

        Unavailable, BrokenChain, ConfigError.
        """
        part = self.parts.setdefault(number, self._new_part(number))
        async with part.lock:
            await self._load(part, topic_id)
            return part.next

    async def write(self, batch: Batch, judged: Sequence[Judged], live: Liveness) -> int | None:
        """Write what was judged of a batch; answers where to read on if that is elsewhere."""
        part = self.parts.get(batch.partition)
        if part is None or part.topic_id != batch.topic_id:
            return None
        async with part.lock:
            if part.next is None:
                part.next = part.durable = batch.start
            if batch.start != part.next:
                return part.next
            return await self._write(part, judged, batch.next, live)

    def knows(self, number: int, page_id: str) -> bool:
        """Return whether a page of a partition has come before, as far as the kept ids go back."""
        part, name = self.parts.get(number), short(page_id)
        if part is None or part.segment is None:
            return part is not None and name in part.known
        return name in part.segment

    async def tick(self, live: Liveness) -> Mapping[int, int]:
        """Store what is old enough; answers where to read on, by partition, if elsewhere."""
        elsewhere = {}
        for part in list(self.parts.values()):
            async with part.lock:
                is_open = part.segment is not None and part.until is None
                is_due = is_open and part.segment and part.segment.why_full() == "age"
                seek = await self._finish(part, "age", live) if is_due else None
            if seek is not None:
                elsewhere[part.number] = seek
        return elsewhere

    async def end(self, live: Liveness) -> None:
        """Store what is open, in an orderly end; what is made again is left to the next one."""
        for part in self.parts.values():
            async with part.lock:
                if part.segment and not part.segment.is_empty and part.until is None:
                    await self._finish(part, "end", live)
                else:
                    self._drop(part)

    async def skip(self, where: OutOfRange, live: Liveness) -> int:
        """Go on at the oldest record where Kafka has deleted what was to be read next."""
        part = self.parts[where.partition]
        async with part.lock:
            if part.until is not None:
                opened, until = self._opened(part), part.until
                part.next = min(where.log_start, until)
                opened.skip(part.next)
                if part.next == until:
                    await self._finish(part, "again", live)
            if part.until is None:
                self._opened(part, where.position).skip(where.log_start)
                part.next = where.log_start
            return where.log_start

    @abstractmethod
    def _new_part(self, number: int) -> P:
        """A partition of which nothing is known."""

    @abstractmethod
    async def _read(self, part: P, topic_id: str) -> None:
        """Read from the store how far a partition is; as `position`."""

    @abstractmethod
    async def _keep(self, part: P, closed: ClosedSegment, live: Liveness) -> bool:
        """Store a segment; False if another process has stored its records, or does so."""

    def _payloads(self, _: P) -> KnownPayloads | None:
        """Return what is known of payloads for a new segment; None: each is stored."""
        return None

    async def _prepare(self, segment: Segment, judged: Sequence[Judged], live: Liveness) -> None:
        """Look up what the segment needs to know of records that are written next."""

    async def _load(self, part: P, topic_id: str) -> None:
        """Learn from the store how far it is."""
        self._drop(part)
        part.topic_id = ""
        await self._read(part, topic_id)
        part.topic_id = topic_id
        again = {"again": part.until} if part.until is not None else {}
        log.info("read", partition=part.number, position=part.next, **again)

    def _opened(self, part: P, start: int | None = None) -> Segment:
        if part.segment is None:
            settings, first = self._settings, (start if part.next is None else part.next) or 0
            part.segment = Segment(
                first,
                name=f"{topic_name(part.topic_id)}-{part.number:05}-{first:020}",
                sink=settings.limits,
                spool=settings.spool,
                known=part.known,
                crawl=settings.crawl,
                columns=settings.columns,
                shape=settings.shape,
            )
            part.segment.payloads = self._payloads(part)
        return part.segment

    def _drop(self, part: P) -> None:
        if part.segment is not None:
            part.segment.drop()
            part.segment = None

    async def _write(
        self, part: P, judged: Sequence[Judged], up_to: int, live: Liveness
    ) -> int | None:
        until = part.until
        end = up_to if until is None else min(up_to, until)
        segment, ours = self._opened(part), [each for each in judged if each.record.offset < end]
        await self._prepare(segment, ours, live)
        try:
            await asyncio.to_thread(segment.add, ours, end)
        except SpoolUnavailable as error:
            return await self._abandon(part, error)
        self.trouble = ""
        part.next = segment.next
        why = segment.why_full()
        if until is not None:
            why = "again" if part.next == until else ""
        if why and (seek := await self._finish(part, why, live)) is not None:
            return seek
        if part.next < up_to:
            return await self._write(part, judged[len(ours) :], up_to, live)
        return None

    async def _abandon(self, part: P, error: SpoolUnavailable) -> int | None:
        """Drop what is open, and read its records again, after a pause."""
        self.trouble = str(error)
        log.warning("write", outcome="waiting", partition=part.number, error=str(error))
        self._drop(part)
        part.next = part.durable
        await asyncio.sleep(_SPOOL_PAUSE_S)
        return part.next

    async def _finish(self, part: P, why: str, live: Liveness) -> int | None:
        """Close a segment and store it; return where to read on if another process was first."""
        segment = part.segment
        assert segment is not None
        try:
            written = await asyncio.to_thread(segment.close)
        except SpoolUnavailable as error:
            return await self._abandon(part, error)
        account = summed([part.account, segment.account])
        closed = ClosedSegment(
            *(segment.start, segment.next, segment.ids, written, account),
            payloads=segment.payloads,
        )
        if not await self._keep(part, closed, live):
            return await self._give_way(part, live)
        self._note(part, segment, account, why)
        return None

    async def _give_way(self, part: P, live: Liveness) -> int | None:
        """Drop the segment: another process has stored its records, or does so."""
        CLAIMS_LOST.labels(self._settings.pipeline).inc()
        log.warning("claim", outcome="lost", partition=part.number, position=part.durable)
        await live.retry(partial(self._load, part, part.topic_id))
        return part.next

    def _note(self, part: P, segment: Segment, account: Account, why: str) -> None:
        name, tally = self._settings.pipeline, segment.account.total
        note_records(name, tally)
        SEGMENTS.labels(name, why).inc()
        told = {"partition": part.number, "start": segment.start, "next": segment.next, "why": why}
        log.info("finish", pipeline=name, delivered=tally.delivered, **told)
        self.stored += tally.read
        part.known.add(segment.ids)
        part.account = account
        part.durable = part.next = segment.next
        self._drop(part)


async def put_files(store: Store, files: Mapping[str, Path], live: Liveness) -> None:
    """Put files into a store, under names; a large one may take its time."""

    async def put(name: str, file: Path) -> None:
        live.beat(ahead_s=_PUT_S)
        await asyncio.to_thread(store.put, name, file)
        live.beat()

    for name, file in files.items():
        await live.retry(partial(put, name, file))
        failpoint("after_put")
        log.debug("put", file=name)
