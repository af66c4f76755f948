"""Sink on any store of rows: rows, position and account in one transaction.

The position of a partition is a note, ``<topic>-<partition>/position``, which holds the total of
its account as well; ``…/run/<run>`` are the accounts of its runs. A writer names the text that the
position had when it was read: if it has changed, another process has written, and reading continues
from there. So a process that was frozen changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

import structlog

from crawlstream.boot.failpoints import failpoint
from crawlstream.boot.liveness import Liveness
from crawlstream.bus.records import Batch, OutOfRange
from crawlstream.plugins.sinks import Change, Notes, Row, RowsRefused, RowStore, SinkUnavailable
from pipeline_service.metrics import SINK_SECONDS, note_records
from pipeline_service.records.account import Account
from pipeline_service.records.judging import Judged
from pipeline_service.sinks.files.claims import topic_name
from pipeline_service.sinks.id_window import IdWindow, notes_of
from pipeline_service.sinks.sink import Begin, SinkPosition, SinkRefused
from pipeline_service.sinks.steps import POSITION, BatchStep, standing_of
from pipeline_service.sinks.store_calls import StoreCalls
from pipeline_service.spec.config import Pipeline

log = structlog.get_logger()
T = TypeVar("T")


class Maker(Protocol):
    """Makes rows."""

    def rows(self, judged: Sequence[Judged], is_known: Callable[[str], bool]) -> Sequence[Row]:
        """Return rows of records whose ids are not known; no two have one key. StoreUnavailable."""


@dataclass(slots=True)
class RowPart:
    """State of a partition of the source, as far as this process knows it."""

    number: int
    topic_id: str = ""
    """Empty: its position is not known."""
    place: str = ""
    """Begins the names of its notes."""
    next: int | None = None
    """Offset of the next record to be written, and of the first that is not; None: the oldest."""
    note: str | None = None
    """The text of its position in the store; None: there is none."""
    account: Account = field(default_factory=Account)
    window: IdWindow = field(default_factory=lambda: IdWindow("", 0))
    """Ids of pages that the store itself does not have: those without rows, or all."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class RowsSink:
    """The rows of one pipeline."""

    def __init__(self, pipeline: Pipeline, store: RowStore, maker: Maker, *, begin: Begin) -> None:
        self.trouble = ""
        self.oldest_ms = 0
        self.stored = 0
        self._pipeline = pipeline
        self._store = store
        self._maker = maker
        self._begin = begin
        self._parts: dict[int, RowPart] = {}
        self._calls = StoreCalls(store)
        self._is_open = False

    @property
    def topics(self) -> Mapping[int, str]:
        """UUID of the source, by partition whose position is known here."""
        return {n: part.topic_id for n, part in self._parts.items() if part.topic_id}

    @property
    def standings(self) -> Mapping[int, SinkPosition]:
        """Return how far those partitions are in the store."""
        return {n: SinkPosition(p.next, p.account) for n, p in self._parts.items() if p.topic_id}

    async def position(self, topic_id: str, number: int) -> int | None:
        """Return where a partition is to be read from, None: its oldest record. SinkUnavailable."""
        part = self._parts.setdefault(number, RowPart(number))
        async with part.lock:
            await self._load(part, topic_id)
            return part.next

    async def write(self, batch: Batch, judged: Sequence[Judged], live: Liveness) -> int | None:
        """Write what was judged of a batch; answers where to read on if that is elsewhere.

        SinkRefused: call it again without the records that it names.
        """
        part = self._parts.get(batch.partition)
        if part is None or part.topic_id != batch.topic_id:
            return None
        async with part.lock:
            if part.next is None:
                part.next = batch.start
            if batch.start != part.next:
                return part.next
            self.oldest_ms = min((each.record.timestamp_ms for each in judged), default=0)
            making = partial(self._maker.rows, judged, part.window.__contains__)
            rows = await live.retry(partial(asyncio.to_thread, making))
            step = BatchStep(
                *(part.place, part.account, judged, rows),
                up_to=batch.next,
                window=part.window,
                remembers_rows=not self._store.knows_keys,
            )
            known = part.note
            is_ours = await self._write(part, step, live)
            self.oldest_ms = 0
            return None if is_ours else self._elsewhere(part, 0 if known else batch.start)

    def knows(self, number: int, page_id: str) -> bool:
        """Return whether a page of a partition has come before, as far as the kept ids go back."""
        part = self._parts.get(number)
        return part is not None and page_id in part.window

    async def tick(self, _: Liveness) -> Mapping[int, int]:
        """Nothing is ever left open."""
        return {}

    async def end(self, _: Liveness) -> None:
        """Let go of the store."""
        await self._calls.call(self._close)

    async def skip(self, where: OutOfRange, live: Liveness) -> int:
        """Go on at the oldest record where Kafka has deleted what was to be read next."""
        part = self._parts[where.partition]
        async with part.lock:
            while True:
                lost = where.log_start - (where.position if part.next is None else part.next)
                step = BatchStep(
                    *(part.place, part.account, (), ()),
                    up_to=where.log_start,
                    window=part.window,
                    lost=max(lost, 0),
                )
                await self._write(part, step, live)
                if part.next is not None:
                    return part.next

    async def _load(self, part: RowPart, topic_id: str) -> None:
        """Learn from the store how far it is."""
        part.topic_id, part.place = "", f"{topic_name(topic_id)}-{part.number:05}"
        notes = await self._asked(partial(self._read, part.place))
        if POSITION.format(part.place) not in notes:
            first = await self._begin(part.number)
            if first is not None:
                step = BatchStep(part.place, Account(), (), (), up_to=first, window=part.window)
                await self._asked(partial(self._store.write, self._change(None, step)))
                notes = await self._asked(partial(self._read, part.place))
        standing = standing_of(notes, part.place)
        self._note(part, notes.get(POSITION.format(part.place)), standing)
        part.window = IdWindow.of_notes(notes, part.place, self._pipeline.repeats)
        part.topic_id = topic_id
        log.info("read", partition=part.number, position=part.next)

    def _read(self, place: str) -> Mapping[str, str]:
        self._store.take_over(POSITION.format(place))
        # In this order: ids of later than the position do no harm, for it has moved then.
        return {**self._store.read(f"{place}/"), **self._store.read(notes_of(place))}

    async def _write(self, part: RowPart, step: BatchStep, live: Liveness) -> bool:
        """Write a step; False if another process has written: the position is read again."""
        change = self._change(part.note, step)
        try:
            with SINK_SECONDS.labels(self._pipeline.name).time():
                is_ours = await live.retry(partial(self._try, change))
        except RowsRefused as refused:
            with suppress(_TakenOver):
                raise await self._blamed(change, refused, live) from refused
            is_ours = False
        if is_ours:
            self._note(part, step.note, SinkPosition(step.up_to, step.account))
            part.window.add(step.remembered)
            note_records(self._pipeline.name, step.delta.total)
            self.stored += step.delta.total.read
            return True
        log.warning("write", outcome="elsewhere", partition=part.number, position=part.next)
        await live.retry(partial(self._load, part, part.topic_id))
        return False

    async def _try(self, change: Change) -> bool:
        failpoint("before_write")
        is_ours = await self._asked(partial(self._store.write, change))
        failpoint("after_write")
        return is_ours

    async def _blamed(self, change: Change, refused: RowsRefused, live: Liveness) -> SinkRefused:
        """Find which records are refused, by trial where the store does not say; _TakenOver."""

        async def try_all() -> SinkRefused:
            if not (problems := await self._asked(partial(self._refused, change, refused))):
                raise SinkUnavailable(f"refused as a batch, but not one by one: {refused}")
            return SinkRefused(problems)

        return await live.retry(try_all)

    def _refused(self, change: Change, refused: RowsRefused) -> Mapping[int, str]:
        rows = change.rows
        if refused.keys or len(rows) == 1:
            names = refused.keys or {rows[0].key}
            reasons = names if isinstance(names, Mapping) else dict.fromkeys(names, str(refused))
            return {row.offset: reasons[row.key] for row in rows if row.key in names}
        half = len(rows) // 2
        return {**self._tried(change, rows[:half]), **self._tried(change, rows[half:])}

    def _tried(self, change: Change, rows: Sequence[Row]) -> Mapping[int, str]:
        """Write rows and undo it; return which of them are refused.

        _TakenOver where another process has written since: what is tried belongs to it now, and
        would find no culprit however often it is tried.
        """
        trial = Change(change.name, change.expected, rows, _undo)
        try:
            self._store.write(trial)
        except _Undone:
            return {}
        except RowsRefused as refused:
            return self._refused(trial, refused)
        raise _TakenOver

    def _change(self, expected: str | None, step: BatchStep) -> Change:
        return Change(POSITION.format(step.place), expected, step.rows, step.settle)

    def _elsewhere(self, part: RowPart, start: int) -> int:
        """Return where to read on; ``start`` if the store has no position."""
        if part.next is None:
            part.next = start
        return part.next

    def _note(self, part: RowPart, note: str | None, standing: SinkPosition) -> None:
        part.note, part.account, part.next = note, standing.account, standing.position

    async def _asked(self, call: Callable[[], T]) -> T:
        """Call the store, opened; SinkUnavailable, and what the call raises."""
        return await self._calls.call(partial(self._opened, call))

    def _opened(self, call: Callable[[], T]) -> T:
        if not self._is_open:
            self._store.open()
            self._is_open = True
        try:
            return call()
        except SinkUnavailable:
            self._is_open = False
            raise

    def _close(self) -> None:
        self._is_open = False
        self._store.close()


class _TakenOver(Exception):
    """The position of the partition is not where this process has left it."""


class _Undone(Exception):
    """Raised to undo a transaction."""


def _undo(_: object) -> Notes:
    raise _Undone
