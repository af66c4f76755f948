"""Sink of tables: spool, notes, files, commit.

A segment is encoded in the spool. Its notes and files are put under names that no other attempt
has. Then a commit adds the files to the table and moves the position. A process that dies before
leaves files that the table does not know, and the next one reads the records again from the
position. A process that was frozen is refused: it drops its segment, and reads on from the position
that others have reached.

Files of a refused commit are not removed: it may be one whose answer was lost, and which others
have followed since. The table's own vacuum removes what does not count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from crawlstream.boot.failpoints import failpoint
from crawlstream.boot.liveness import Liveness
from crawlstream.bus.records import Batch
from crawlstream.store.bodies import BodyStore
from crawlstream.store.store import Store
from pipeline_service.records.judging import Judged, Wanted
from pipeline_service.sinks.files.repeats import Repeats, short
from pipeline_service.sinks.files.segments import Segment, Written
from pipeline_service.sinks.lake.segment_notes import LakeNotes, SegmentNote, check_edition
from pipeline_service.sinks.lake.table import (
    LakeCommit,
    LakeFile,
    LakePosition,
    LakeTable,
    position_name,
)
from pipeline_service.sinks.segment_sink import (
    ClosedSegment,
    SegmentPart,
    SegmentSettings,
    SegmentSink,
    put_files,
)
from pipeline_service.sinks.sink import Begin

_DATA = "data"
"""Folder of the files in the table's."""
_COMMIT_S = 300.0
"""For a commit to be answered, however often others are first."""


@dataclass(slots=True)
class LakePart(SegmentPart):
    """State of a partition of the source, as far as this process knows it."""

    notes: LakeNotes | None = None
    last: LakePosition | None = None
    """Its position in the table; None: there is none."""


class LakeSink(SegmentSink[LakePart]):
    """The segments of one pipeline in a table."""

    def __init__(
        self,
        settings: SegmentSettings,
        table: LakeTable[Any],
        notes: Store,
        *,
        owner: str,
        repeats: int,
        begin: Begin,
        bodies: BodyStore | None = None,
    ) -> None:
        """``owner`` begins the names of its positions: see `table.owner_of`.

        ``repeats``: how many ids are kept against pages that come again.
        """
        super().__init__(settings)
        self._table = table
        self._notes = notes
        self._owner = owner
        self._repeats = repeats
        self._begin = begin
        self._bodies = bodies

    async def write(self, batch: Batch, judged: Sequence[Judged], live: Liveness) -> int | None:
        """Write what was judged of a batch; answers where to read on if that is elsewhere."""
        if self._bodies is not None:
            keep = partial(asyncio.to_thread, with_refs, judged, self._bodies)
            judged = await live.retry(keep)
        return await super().write(batch, judged, live)

    def _new_part(self, number: int) -> LakePart:
        return LakePart(number)

    async def _read(self, part: LakePart, topic_id: str) -> None:
        """Read from the table how far a partition is. StoreUnavailable, BrokenChain, ConfigError.

        The table is made only after `begin` has looked whether its disk is mounted.
        """
        part.notes = notes = LakeNotes(self._notes, topic_id, part.number)
        name = position_name(self._owner, notes.name)
        part.last = last = await asyncio.to_thread(self._table.position, name)
        part.next = await asyncio.to_thread(notes.origin) if last is None else last.next
        if part.next is None and (first := await self._begin(part.number)) is not None:
            part.next = await asyncio.to_thread(notes.begin, first)
        await asyncio.to_thread(check_edition, self._notes, self._owner)
        await asyncio.to_thread(self._table.open)
        await asyncio.to_thread(self._notes.pin)
        part.durable = part.next
        part.account = await asyncio.to_thread(notes.account, last)
        part.known = await asyncio.to_thread(notes.repeats, last, self._repeats)

    async def _keep(self, part: LakePart, closed: ClosedSegment, live: Liveness) -> bool:
        """Note, put, commit; False if the table has another position by now."""
        notes = part.notes
        assert notes is not None
        position = LakePosition.new(closed.next)
        files = named(closed.written, f"{notes.name}-{closed.start:020}-{position.token:014x}")
        note = SegmentNote(
            start=closed.start,
            position=position,
            previous=part.last,
            files={name: _told(each) for name, each in files.items()},
            account=closed.account,
        )
        await live.retry(partial(asyncio.to_thread, notes.put, note, closed.ids))
        await put_files(self._table.files, {name: each.path for name, each in files.items()}, live)
        commit = LakeCommit(
            name=position_name(self._owner, notes.name),
            expected=part.last,
            position=position,
            files=described(files),
            about={"segment": f"{notes.name} {closed.start}-{closed.next}"},
        )
        failpoint("before_commit")
        if not await live.retry(partial(self._commit, commit, live)):
            return False
        failpoint("after_commit")
        part.last = position
        return True

    async def _commit(self, commit: LakeCommit, live: Liveness) -> bool:
        live.beat(ahead_s=_COMMIT_S)
        try:
            return await asyncio.to_thread(self._table.commit, commit)
        finally:
            live.beat()


def add_page(table: LakeTable[Any], settings: SegmentSettings, owner: str, judged: Wanted) -> None:
    """Add one page that could not be delivered when it came; once, however often it is called."""
    segment = Segment(
        *(0,),
        sink=settings.limits,
        spool=settings.spool,
        known=Repeats(0),
        crawl=settings.crawl,
        columns=settings.columns,
        shape=settings.shape,
    )
    name, position = f"replayed-{short(judged.id).hex()}", LakePosition.new(1)
    segment.add([judged], 1)
    files = named(segment.close(), f"{name}-{position.token:014x}")
    for file, written in files.items():
        table.files.put(file, written.path)
    table.open()
    commit = LakeCommit(
        name=f"{owner}/{name}",
        expected=None,
        position=position,
        files=described(files),
        about={"replayed": judged.id},
    )
    table.commit(commit)


def with_refs(judged: Sequence[Judged], bodies: BodyStore) -> Sequence[Judged]:
    """Keep whole bodies in their store; return the records with the URLs. StoreUnavailable."""
    return [with_ref(each, bodies) if isinstance(each, Wanted) else each for each in judged]


def with_ref(judged: Wanted, bodies: BodyStore) -> Wanted:
    """Keep the whole body of a page; return the page with its URL. StoreUnavailable."""
    page = judged.page
    if page.body_ref is not None or page.body_truncated or not page.body:
        return judged
    page = replace(page, body_ref=bodies.put(page.body))
    if judged.rows is None:
        return replace(judged, page=page)
    return replace(judged, page=page, rows=[replace(row, page=page) for row in judged.rows])


def named(written: Sequence[Written], stem: str) -> Mapping[str, Written]:
    """Return the files of a segment by their names in the table's folder."""
    return {f"{_DATA}/{stem}-{n:02}.parquet": each for n, each in enumerate(written)}


def described(files: Mapping[str, Written]) -> Sequence[LakeFile]:
    """Return files for a commit."""
    return [
        LakeFile(name=name, path=each.path, size=each.size, values=each.values)
        for name, each in files.items()
    ]


def _told(file: Written) -> Mapping[str, object]:
    return {"rows": file.rows, "bytes": file.size, "sha256": file.sha256}
