"""Records of a topic by time, newest or oldest first: its partitions are merged in windows.

Each partition keeps its own order, so a cursor is one offset per partition, whatever times the
records have. If the times of each partition increase, the whole is sorted by time.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from crawlstream.bus.tail import offsets_since, read_topic
from rest_service.service import Service
from rest_service.v2.reading import (
    PAGE_S,
    SCANNED,
    Name,
    RecordFilter,
    RecordPage,
    cursor_of,
    ends_of,
    topic_of,
)

_LEAST_WINDOW, _LARGEST_WINDOW = 10, 2_000
"""Records of a partition that are read at once; more when the first ones are not enough."""
_BREATH = 50

Fits = Callable[[Mapping[str, Any]], bool]
Offsets = dict[int, int]


@dataclass(slots=True)
class OrderedRecords:
    """Some records in order, and where to continue."""

    at: Offsets
    records: list[dict[str, Any]] = field(default_factory=list)
    scanned: int = 0
    is_at_end: bool = False

    @property
    def cursor(self) -> str:
        """Cursor after the last record."""
        return cursor_of(self.at)


@dataclass(slots=True)
class _Merge:
    """Records that were read from each partition and not returned yet."""

    at: Offsets
    bounds: Offsets
    newest_first: bool
    loaded: dict[int, deque[dict[str, Any]]] = field(default_factory=dict)
    """Records in the order of the offsets; ``value`` is None if a record is not wanted."""
    edges: Offsets = field(default_factory=dict)
    """Offset up to which each partition was read."""

    def __post_init__(self) -> None:
        self.loaded = {number: deque() for number in self.at}
        self.edges = dict(self.at)

    @property
    def lacking(self) -> list[int]:
        """Partitions whose next record is not loaded yet."""
        return [
            number
            for number, records in self.loaded.items()
            if not records and self._is_left(number)
        ]

    def _is_left(self, number: int) -> bool:
        edge, bound = self.edges[number], self.bounds[number]
        return edge > bound if self.newest_first else edge < bound

    def windows(self, size: int) -> Mapping[int, tuple[int, int]]:
        """Return the next range (from, to) to read of each partition that lacks a record."""
        found = {}
        for number in self.lacking:
            edge, bound = self.edges[number], self.bounds[number]
            if self.newest_first:
                found[number] = (max(bound, edge - size), edge)
            else:
                found[number] = (edge, min(bound, edge + size))
        return found

    def load(self, records: Mapping[int, list[dict[str, Any]]], size: int) -> None:
        """Add the records of the windows."""
        for number, (low, high) in self.windows(size).items():
            self.loaded[number].extend(records[number])
            self.edges[number] = low if self.newest_first else high

    def pop(self) -> dict[str, Any] | None:
        """Return the next record in order; None if there is none."""
        end = -1 if self.newest_first else 0
        heads = {
            number: (records[end]["at_ms"], number)
            for number, records in self.loaded.items()
            if records
        }
        if not heads:
            self.at = dict(self.edges)
            return None
        choose = max if self.newest_first else min
        number = choose(heads, key=lambda one: heads[one])
        records = self.loaded[number]
        record = records.pop() if self.newest_first else records.popleft()
        self.at[number] = record["offset"] + (not self.newest_first)
        return record


async def read_ordered(
    service: Service,
    name: Name,
    wanted: RecordFilter,
    *,
    at: Mapping[int, int],
    bounds: Mapping[int, int],
    newest_first: bool = True,
    limit: int = 1,
    fits: Fits = lambda _value: True,
) -> OrderedRecords:
    """Return records from ``at`` to ``bounds`` that are wanted and fit; KafkaUnavailable.

    Newest first, ``at`` is after the first record and ``bounds`` at the last one. It ends early,
    with a cursor, after many records or a long time.
    """
    merge = _Merge(dict(at), {n: bounds.get(n, at[n]) for n in at}, newest_first)
    found = OrderedRecords(merge.at)
    size, deadline = limit // len(at) + _LEAST_WINDOW, time.monotonic() + PAGE_S
    while len(found.records) < limit:
        if merge.lacking:
            if found.scanned >= SCANNED or time.monotonic() >= deadline:
                break
            records = await _window(service, name, wanted, merge.windows(size), deadline=deadline)
            if records is None:
                break
            merge.load(records, size)
            size = min(2 * size, _LARGEST_WINDOW)
            continue
        record = merge.pop()
        if record is None:
            found.is_at_end = True
            break
        found.scanned += 1
        if record["value"] is not None and fits(record["value"]):
            found.records.append(record)
    found.at = merge.at
    return found


async def _window(
    service: Service,
    name: Name,
    wanted: RecordFilter,
    windows: Mapping[int, tuple[int, int]],
    *,
    deadline: float,
) -> dict[int, list[dict[str, Any]]] | None:
    """Return every record of the windows, by partition; None if they took too long to read."""
    start = await ends_of(service, name)
    until = dict(start)
    for number, (low, high) in windows.items():
        start[number], until[number] = low, high
    found: dict[int, list[dict[str, Any]]] = {number: [] for number in windows}
    page = RecordPage({})
    reading = read_topic(
        service.kafka, topic_of(service, name), offsets=start, until=until, follow=False
    )
    try:
        async with asyncio.timeout(max(0.1, deadline - time.monotonic())), aclosing(reading):
            async for record in reading:
                if record.offset >= windows.get(record.partition, (0, 0))[1]:
                    continue
                is_wanted = page.note(record, wanted)
                place = {"partition": record.partition, "offset": record.offset}
                view = page.records.pop() if is_wanted else {**place, "value": None}
                found[record.partition].append({**view, "at_ms": record.timestamp_ms})
                if page.scanned % _BREATH == 0:
                    await asyncio.sleep(0)
    except TimeoutError:
        return None
    return found


async def beginnings_of(service: Service, name: Name) -> Offsets:
    """Return the offset of the oldest record, by partition; KafkaUnavailable."""
    return dict(await offsets_since(service.kafka, topic_of(service, name), 0))


async def beside(
    service: Service, name: Name, place: tuple[int, int], at_ms: int
) -> tuple[Offsets, Offsets]:
    """Return the offsets just before and just after a record, by partition.

    In other partitions, this is the first record that is not older. Of two records with the same
    time, the one in the lower partition is the older.
    """
    topic = topic_of(service, name)
    since = await offsets_since(service.kafka, topic, at_ms)
    later = await offsets_since(service.kafka, topic, at_ms + 1)
    partition, offset = place
    older = {number: later[number] if number < partition else since[number] for number in since}
    return {**older, partition: offset}, {**older, partition: offset + 1}
