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

from crawlstream.boot.failpoints import failpoint
from crawlstream.boot.liveness import Liveness
from crawlstream.store.store import Store
from pipeline_service.formats.payloads import KnownPayloads, PayloadRecord
from pipeline_service.records.judging import Judged, Wanted
from pipeline_service.sinks.files.claims import Claim, ClaimChain, new_writer
from pipeline_service.sinks.files.segments import Segment, Written, index_name
from pipeline_service.sinks.segment_sink import (
    ClosedSegment,
    SegmentPart,
    SegmentSettings,
    SegmentSink,
    put_files,
)
from pipeline_service.sinks.sink import Begin
from pipeline_service.sinks.sql.payload_index import PayloadIndex


@dataclass(slots=True)
class FilePart(SegmentPart):
    """State of a partition of the source, as far as this process knows it."""

    chain: ClaimChain | None = None
    last: Claim | None = None
    """The last finished segment."""
    redo: Claim | None = None
    """Claim that is not finished: its segment is made again."""
    refs: Mapping[str, PayloadRecord] = field(default_factory=dict)
    """References to earlier records in that segment."""

    @property
    def until(self) -> int | None:
        """Return where the segment has to end, because it is made again; None: anywhere."""
        return None if self.redo is None else self.redo.next


class FilesSink(SegmentSink[FilePart]):
    """The files of one pipeline."""

    def __init__(
        self,
        settings: SegmentSettings,
        store: Store,
        *,
        repeats: int,
        begin: Begin,
        index: PayloadIndex | None = None,
    ) -> None:
        """``repeats``: how many ids are kept against pages that come again.

        ``index`` has the payloads that are not stored again.
        """
        super().__init__(settings)
        self._store = store
        self._repeats = repeats
        self._begin = begin
        self._index = index
        self._writer = new_writer()

    async def end(self, live: Liveness) -> None:
        """Store what is open, in an orderly end; let go of the index."""
        await super().end(live)
        if self._index is not None:
            await self._index.close()

    def _new_part(self, number: int) -> FilePart:
        return FilePart(number)

    async def _read(self, part: FilePart, topic_id: str) -> None:
        """Read from the store how far a partition is. StoreUnavailable, BrokenChain."""
        part.chain = chain = ClaimChain(self._store, topic_id, part.number)
        end = await asyncio.to_thread(chain.end)
        part.next = end.position
        if end.position is None and (first := await self._begin(part.number)) is not None:
            part.next = await asyncio.to_thread(chain.begin, first)
        await asyncio.to_thread(self._store.pin)
        part.durable = part.next
        part.redo = None if end.is_finished else end.last
        before, part.refs = end.last, {}
        if part.redo:
            before = await asyncio.to_thread(chain.before, part.redo)
            part.refs = await asyncio.to_thread(chain.refs, part.redo)
        elif before and before.refs:
            # Its writer may have died before it removed them.
            await asyncio.to_thread(chain.remove_refs, before.start, before.refs)
        part.last, part.account = before, end.account
        part.known = await asyncio.to_thread(chain.repeats, before, self._repeats)

    def _payloads(self, part: FilePart) -> KnownPayloads | None:
        if self._index is None:
            return None
        is_by_run = self._index.is_by_run
        return KnownPayloads(is_by_run, dict(part.refs), is_decided=part.redo is not None)

    async def _prepare(self, segment: Segment, judged: Sequence[Judged], live: Liveness) -> None:
        pages = [each.page for each in judged if isinstance(each, Wanted)]
        if self._index is None or segment.payloads is None or not pages:
            return
        keys = await asyncio.to_thread(segment.payloads.expect, pages)
        since = min(page.timestamp for page in pages)
        segment.payloads.found(await live.retry(partial(self._index.find, keys, since)))

    async def _keep(self, part: FilePart, closed: ClosedSegment, live: Liveness) -> bool:
        """Claim, put, finish; False if another process has claimed it."""
        chain = part.chain
        assert chain is not None
        files = {each.name: each for each in closed.written}
        claim = part.redo or await self._claim(part, closed, sorted(files), live)
        if claim is None:
            return False
        await self._put(claim, files, live)
        await live.retry(partial(asyncio.to_thread, chain.put_ids, claim.start, closed.ids))
        told = {name: _told(each) for name, each in files.items()}
        await live.retry(partial(asyncio.to_thread, chain.finish, claim, told, closed.account))
        failpoint("after_finish")
        if self._index is not None and closed.payloads is not None:
            await live.retry(partial(self._index.add, closed.payloads.stored))
        await self._remove_refs(chain, claim, live)
        part.last, part.redo, part.refs = claim, None, {}
        return True

    async def _claim(
        self, part: FilePart, closed: ClosedSegment, files: Sequence[str], live: Liveness
    ) -> Claim | None:
        """Claim a segment; None if another process was first."""
        chain, refs = part.chain, closed.payloads.referred if closed.payloads else {}
        assert chain is not None
        name = new_writer() if refs else ""
        if refs:
            putting = partial(chain.put_refs, closed.start, name, refs)
            await live.retry(partial(asyncio.to_thread, putting))
        claim = Claim(
            start=closed.start,
            next=closed.next,
            previous=part.last.start if part.last else None,
            files=files,
            by=self._writer,
            refs=name,
        )
        failpoint("before_claim")
        if not await live.retry(partial(asyncio.to_thread, chain.claim, claim)):
            await self._remove_refs(chain, claim, live)
            return None
        failpoint("after_claim")
        return claim

    async def _remove_refs(self, chain: ClaimChain, claim: Claim, live: Liveness) -> None:
        if claim.refs:
            removing = partial(chain.remove_refs, claim.start, claim.refs)
            await live.retry(partial(asyncio.to_thread, removing))

    async def _put(self, claim: Claim, files: Mapping[str, Written], live: Liveness) -> None:
        for name in claim.files:
            if name not in files:
                # File of a writer that named it differently, before the file of the pipelines was
                # changed.
                for each in (name, index_name(name)):
                    await live.retry(partial(asyncio.to_thread, self._store.remove, each))
        for name in sorted(files):
            await put_files(self._store, files[name].parts, live)


def _told(file: Written) -> Mapping[str, object]:
    index = {} if file.index is None else {"index": index_name(file.name)}
    return {"rows": file.rows, "bytes": file.size, "sha256": file.sha256, **index}
