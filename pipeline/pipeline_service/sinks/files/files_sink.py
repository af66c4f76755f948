"""Sink of files: claim, put, finish.

A segment is encoded in the spool. Then its claim is created, and only the process that has created
it puts the segment's files, whose names follow from the claim alone. A process that finds a claim
that is not finished makes the segment again, to exactly its end, under equal names. So a crash
costs the work of one segment. A process that was frozen is refused when it comes back: it drops its
segment, and reads on from the position that others have reached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from crawlstream.boot.failpoints import failpoint
from crawlstream.boot.liveness import Liveness
from crawlstream.bus.records import Batch, OutOfRange
from crawlstream.store.store import Store
from pipeline_service.formats.files import Crawl
from pipeline_service.metrics import CLAIMS_LOST, SEGMENTS, note_records
from pipeline_service.records.account import Account, summed
from pipeline_service.records.judging import Judged
from pipeline_service.records.rows import Shape
from pipeline_service.sinks.files.claims import Claim, ClaimChain, new_writer
from pipeline_service.sinks.files.repeats import Repeats, short
from pipeline_service.sinks.files.segments import Segment, Spool, SpoolUnavailable, Written
from pipeline_service.sinks.sink import Begin, SinkPosition
from pipeline_service.spec.config import Pipeline
from pipeline_service.spec.files_spec import FilesSpec as Files

_SPOOL_PAUSE_S = 1.0
_PUT_S = 900.0
"""For a file to arrive in the store, however slow that is."""

log = structlog.get_logger()


@dataclass(slots=True)
class FilePart:
    """State of a partition of the source, as far as this process knows it."""

    number: int
    topic_id: str = ""
    chain: ClaimChain | None = None
    last: Claim | None = None
    """The last finished segment."""
    redo: Claim | None = None
    """Claim that is not finished: its segment is made again."""
    next: int | None = None
    """Offset of the next record to be written; None: the oldest."""
    durable: int | None = None
    """Offset of the first record that is not in the store for good."""
    account: Account = field(default_factory=Account)
    """Account of all finished segments."""
    known: Repeats = field(default_factory=lambda: Repeats(0))
    segment: Segment | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class FilesSink:
    """The files of one pipeline."""

    def __init__(
        self,
        pipeline: Pipeline,
        store: Store,
        spool: Spool,
        *,
        begin: Begin,
        crawl: Crawl,
        shape: Shape | None = None,
    ) -> None:
        """``shape`` is of rows that are not the pages themselves."""
        self.parts: dict[int, FilePart] = {}
        self.trouble = ""
        """Reason why pages cannot be written; empty: they can."""
        self.stored = 0
        """Records of the segments that were finished here."""
        self._pipeline = pipeline
        self._files = files_of(pipeline)
        self._store = store
        self._spool = spool
        self._begin = begin
        self._crawl = crawl
        self._shape = shape
        self._writer = new_writer()

    @property
    def topics(self) -> Mapping[int, str]:
        """UUID of the source, by partition whose position is known here."""
        return {n: part.topic_id for n, part in self.parts.items() if part.chain}

    @property
    def standings(self) -> Mapping[int, SinkPosition]:
        """How far those partitions are in the store."""
        return {n: SinkPosition(p.durable, p.account) for n, p in self.parts.items() if p.chain}

    @property
    def oldest_ms(self) -> int:
        """Time of the oldest record that is in an open segment; 0: there is none."""
        segments = [part.segment for part in self.parts.values() if part.segment]
        return min((each.first_ms for each in segments if each.first_ms), default=0)

    async def position(self, topic_id: str, number: int) -> int | None:
        """Where a partition is to be read from, None: its oldest record; drops what is open.

        StoreUnavailable, BrokenChain.
        """
        part = self.parts.setdefault(number, FilePart(number))
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
        """Finish what is old enough; answers where to read on, by partition, if elsewhere."""
        elsewhere = {}
        for part in list(self.parts.values()):
            async with part.lock:
                is_due = part.segment and not part.redo and part.segment.why_full() == "age"
                seek = await self._finish(part, "age", live) if is_due else None
            if seek is not None:
                elsewhere[part.number] = seek
        return elsewhere

    async def end(self, live: Liveness) -> None:
        """Finish what is open, in an orderly end; what is made again is left to the next one."""
        for part in self.parts.values():
            async with part.lock:
                if part.segment and not part.segment.is_empty and not part.redo:
                    await self._finish(part, "end", live)
                else:
                    self._drop(part)

    async def skip(self, where: OutOfRange, live: Liveness) -> int:
        """Go on at the oldest record where Kafka has deleted what was to be read next."""
        part = self.parts[where.partition]
        async with part.lock:
            if part.redo:
                part.next = min(where.log_start, part.redo.next)
                self._opened(part).skip(part.next)
                if part.next == part.redo.next:
                    await self._finish(part, "again", live)
            if part.redo is None:
                self._opened(part, where.position).skip(where.log_start)
                part.next = where.log_start
            return where.log_start

    async def _load(self, part: FilePart, topic_id: str) -> None:
        """Learn from the store how far it is."""
        self._drop(part)
        part.topic_id = topic_id
        part.chain = chain = ClaimChain(self._store, topic_id, part.number)
        end = await asyncio.to_thread(chain.end)
        part.next = end.position
        if end.position is None and (first := await self._begin(part.number)) is not None:
            part.next = await asyncio.to_thread(chain.begin, first)
        await asyncio.to_thread(self._store.pin)
        part.durable = part.next
        part.redo = None if end.is_finished else end.last
        before = end.last
        if part.redo:
            before = await asyncio.to_thread(chain.before, part.redo)
        part.last, part.account = before, end.account
        part.known = await asyncio.to_thread(chain.repeats, before, self._pipeline.repeats)
        again = {"again": part.redo.next} if part.redo else {}
        log.info("read", partition=part.number, position=part.next, **again)

    def _opened(self, part: FilePart, start: int | None = None) -> Segment:
        if part.segment is None:
            first = part.redo.start if part.redo else part.next if part.next is not None else start
            part.segment = Segment(
                first or 0,
                sink=self._files,
                spool=self._spool,
                known=part.known,
                crawl=self._crawl,
                shape=self._shape,
            )
        return part.segment

    def _drop(self, part: FilePart) -> None:
        if part.segment is not None:
            part.segment.drop()
            part.segment = None

    async def _write(
        self, part: FilePart, judged: Sequence[Judged], up_to: int, live: Liveness
    ) -> int | None:
        segment, until = self._opened(part), part.redo.next if part.redo else up_to
        ours = [each for each in judged if each.record.offset < until]
        try:
            await asyncio.to_thread(segment.add, ours, min(up_to, until))
        except SpoolUnavailable as error:
            return await self._abandon(part, error)
        self.trouble = ""
        part.next = segment.next
        why = segment.why_full()
        if part.redo:
            why = "again" if part.next == until else ""
        if why and (seek := await self._finish(part, why, live)) is not None:
            return seek
        if part.next < up_to:
            return await self._write(part, judged[len(ours) :], up_to, live)
        return None

    async def _abandon(self, part: FilePart, error: SpoolUnavailable) -> int | None:
        """Drop what is open, and read its records again, after a pause."""
        self.trouble = str(error)
        log.warning("write", outcome="waiting", partition=part.number, error=str(error))
        self._drop(part)
        part.next = part.durable
        await asyncio.sleep(_SPOOL_PAUSE_S)
        return part.next

    async def _finish(self, part: FilePart, why: str, live: Liveness) -> int | None:
        """Claim, put, finish; return where to read on if another process has claimed it."""
        segment, chain = part.segment, part.chain
        assert segment is not None
        assert chain is not None
        try:
            written = await asyncio.to_thread(segment.close)
        except SpoolUnavailable as error:
            return await self._abandon(part, error)
        files = {self._named(chain, segment.start, each): each for each in written}
        claim = part.redo or Claim(
            start=segment.start,
            next=segment.next,
            previous=part.last.start if part.last else None,
            files=sorted(files),
            by=self._writer,
        )
        if part.redo is None:
            failpoint("before_claim")
            if not await live.retry(partial(asyncio.to_thread, chain.claim, claim)):
                return await self._give_way(part, live)
            failpoint("after_claim")
        await self._put(part, claim, files, live)
        await live.retry(partial(asyncio.to_thread, chain.put_ids, claim.start, segment.ids))
        account = summed([part.account, segment.account])
        told = {name: _told(each) for name, each in files.items()}
        await live.retry(partial(asyncio.to_thread, chain.finish, claim, told, account))
        failpoint("after_finish")
        self._note(part, claim, account, why)
        return None

    async def _put(
        self, part: FilePart, claim: Claim, files: Mapping[str, Written], live: Liveness
    ) -> None:
        for name in claim.files:
            if name not in files:
                # File of a writer that named it differently, before the file of the pipelines was
                # changed.
                await live.retry(partial(asyncio.to_thread, self._store.remove, name))
        for name, file in files.items():
            await live.retry(partial(self._put_file, name, file, live))
            failpoint("after_put")
            log.debug("put", partition=part.number, file=name, rows=file.rows)

    async def _put_file(self, name: str, file: Written, live: Liveness) -> None:
        live.beat(ahead_s=_PUT_S)
        await asyncio.to_thread(self._store.put, name, file.path)
        live.beat()

    async def _give_way(self, part: FilePart, live: Liveness) -> int | None:
        """Drop the segment: another process has claimed it and writes its records."""
        CLAIMS_LOST.labels(self._pipeline.name).inc()
        log.warning("claim", outcome="lost", partition=part.number, position=part.durable)
        await live.retry(partial(self._load, part, part.topic_id))
        return part.next

    def _note(self, part: FilePart, claim: Claim, account: Account, why: str) -> None:
        name, segment = self._pipeline.name, part.segment
        assert segment is not None
        tally = segment.account.total
        note_records(name, tally)
        SEGMENTS.labels(name, why).inc()
        told = {"partition": part.number, "start": claim.start, "next": claim.next, "why": why}
        log.info("finish", pipeline=name, delivered=tally.delivered, **told)
        self.stored += tally.read
        part.known.add(segment.ids)
        part.last, part.redo, part.account = claim, None, account
        part.durable = part.next = claim.next
        self._drop(part)

    def _named(self, chain: ClaimChain, start: int, written: Written) -> str:
        return f"{written.folder}{chain.name}-{start:020}.{self._files.format}"


def _told(file: Written) -> Mapping[str, object]:
    return {"rows": file.rows, "bytes": file.size, "sha256": file.sha256}


def files_of(pipeline: Pipeline) -> Files:
    """Return the file settings of a pipeline that writes files."""
    assert isinstance(pipeline.sink, Files)
    return pipeline.sink
