"""Sink of files: claim, put, finish.

A segment is encoded in the spool. Then its claim is created, and only the process that has created
it puts the segment's files, whose names follow from the claim alone. A process that finds a claim
that is not finished makes the segment again, to exactly its end, under equal names. So a crash
costs the work of one segment. A process that was frozen is refused when it comes back: it drops its
segment, and reads on from the position that others have reached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from crawlstream.boot.failpoints import failpoint
from crawlstream.boot.liveness import Liveness
from crawlstream.store.store import Store
from pipeline_service.sinks.files.claims import Claim, ClaimChain, new_writer
from pipeline_service.sinks.files.segments import Written
from pipeline_service.sinks.segment_sink import (
    ClosedSegment,
    SegmentPart,
    SegmentSettings,
    SegmentSink,
    put_files,
)
from pipeline_service.sinks.sink import Begin


@dataclass(slots=True)
class FilePart(SegmentPart):
    """State of a partition of the source, as far as this process knows it."""

    chain: ClaimChain | None = None
    last: Claim | None = None
    """The last finished segment."""
    redo: Claim | None = None
    """Claim that is not finished: its segment is made again."""

    @property
    def until(self) -> int | None:
        """Where the segment has to end, because it is made again; None: anywhere."""
        return None if self.redo is None else self.redo.next


class FilesSink(SegmentSink[FilePart]):
    """The files of one pipeline."""

    def __init__(
        self, settings: SegmentSettings, store: Store, *, repeats: int, begin: Begin
    ) -> None:
        """``repeats``: how many ids are kept against pages that come again."""
        super().__init__(settings)
        self._store = store
        self._repeats = repeats
        self._begin = begin
        self._writer = new_writer()

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
        before = end.last
        if part.redo:
            before = await asyncio.to_thread(chain.before, part.redo)
        part.last, part.account = before, end.account
        part.known = await asyncio.to_thread(chain.repeats, before, self._repeats)

    async def _keep(self, part: FilePart, closed: ClosedSegment, live: Liveness) -> bool:
        """Claim, put, finish; False if another process has claimed it."""
        chain = part.chain
        assert chain is not None
        files = {self._named(chain, closed.start, each): each for each in closed.written}
        claim = part.redo or Claim(
            start=closed.start,
            next=closed.next,
            previous=part.last.start if part.last else None,
            files=sorted(files),
            by=self._writer,
        )
        if part.redo is None:
            failpoint("before_claim")
            if not await live.retry(partial(asyncio.to_thread, chain.claim, claim)):
                return False
            failpoint("after_claim")
        await self._put(claim, files, live)
        await live.retry(partial(asyncio.to_thread, chain.put_ids, claim.start, closed.ids))
        told = {name: _told(each) for name, each in files.items()}
        await live.retry(partial(asyncio.to_thread, chain.finish, claim, told, closed.account))
        failpoint("after_finish")
        part.last, part.redo = claim, None
        return True

    async def _put(self, claim: Claim, files: Mapping[str, Written], live: Liveness) -> None:
        for name in claim.files:
            if name not in files:
                # File of a writer that named it differently, before the file of the pipelines was
                # changed.
                await live.retry(partial(asyncio.to_thread, self._store.remove, name))
        await put_files(self._store, files, live)

    def _named(self, chain: ClaimChain, start: int, written: Written) -> str:
        return f"{written.folder}{chain.name}-{start:020}.{self._settings.limits.format}"


def _told(file: Written) -> Mapping[str, object]:
    return {"rows": file.rows, "bytes": file.size, "sha256": file.sha256}
