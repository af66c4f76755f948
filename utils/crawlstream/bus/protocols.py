"""Interfaces of records in and out for the rest of crawlstream: a source, a sink."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, Self

from crawlstream.bus.records import Batch, Out, OutOfRange
from crawlstream.model.event import RecordPlace

Locate = Callable[[str, int], Awaitable[int | None]]
"""(topic UUID, partition) -> offset to read from, None: the oldest record there is.

LostRecords: the log is not the one that was read; ``on_out_of_range`` is called.
"""
Decide = Callable[[OutOfRange], Awaitable[int | None]]
"""Where to go on from; None: stay paused until ``seek`` is called for the partition."""


class Sink(Protocol):
    """Takes lists of records and says when all of a list are stored for good."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *error: object) -> None: ...

    async def start(self) -> None:
        """Wait, however long, until records can be sent; may be cancelled (then call ``stop``).

        ConfigError: the service refuses this process.
        """

    async def stop(self) -> None:
        """Wait, within bounds, for the verdict on records in flight, and disconnect."""

    async def send(self, records: Sequence[Out]) -> Sequence[int]:
        """Return when all ``records`` are stored: the offset of each, in their order.

        The offset is ``NO_OFFSET`` if a record is stored at an unknown offset, or if an optional
        record was left out.

        NotAcknowledged has the records that are not stored: repeat them. RecordTooLarge has the
        records that never will be; all others are stored.
        """

    async def place(self, record: Out) -> RecordPlace:
        """Return when a record is stored, with its place; the errors are those of ``send``.

        It is for records that a client waits for: they are sent without delay.
        """


class Source(Protocol):
    """Reads one topic as a member of a group, each partition from where the caller says."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *error: object) -> None: ...

    @property
    def is_waiting(self) -> bool:
        """Return whether the service has been unavailable for a while; nothing can be read then."""

    @property
    def obstacle(self) -> str:
        """A sentence if the service answers but lets nothing be read: no such topic, no right."""

    @property
    def paused(self) -> Mapping[int, OutOfRange]:
        """Partitions of this source that wait for a decision, and where each of them stands."""

    async def poll(self, timeout_s: float) -> Sequence[Batch]:
        """Next batches, at most one a partition; empty when none arrived within ``timeout_s``."""

    def seek(self, partition: int, offset: int) -> None:
        """Read on from ``offset``: no batch of older reading is returned after this."""

    def ask(self, where: OutOfRange) -> None:
        """Return nothing more of a partition until it is decided where it goes on."""

    def locate(self, topic_id: str, partition: int) -> None:
        """Return nothing more of a partition until ``locate`` has said where it goes on."""

    def pause(self) -> None:
        """Fetch nothing more for now, but stay a member of the group."""

    def resume(self) -> None:
        """Fetch again."""

    async def commit(self, positions: Mapping[int, int]) -> None:
        """Report positions, by partition, to lag tools; errors are logged and ignored."""
