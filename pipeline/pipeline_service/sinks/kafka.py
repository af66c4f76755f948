"""Topic of Kafka as a store of rows: rows and notes in one transaction.

Notes are records of the compacted topic `<prefix>.pipelines`. Each position has one producer, by
the name of its transactions: a process that takes a partition over fences the one before. Without
transactions each row is written at least once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crawlstream.bus.compacted_topic import CompactedTopic
from crawlstream.bus.connect import Kafka
from crawlstream.bus.records import Out, RecordTooLarge
from crawlstream.bus.topics import create_missing
from crawlstream.bus.transactions import Transactions
from crawlstream.errors import KafkaUnavailable
from crawlstream.plugins.sinks import Change, Notes, Row, RowsRefused, SinkUnavailable

_SEPARATOR = "/"


class KafkaStore:
    """The rows of one edition of a pipeline, and its notes."""

    knows_keys = False

    def __init__(
        self, kafka: Kafka, topic: str, *, notes: str, owner: str, exactly_once: bool
    ) -> None:
        """``notes`` is the topic of notes; ``owner`` is their pipeline."""
        self._kafka = kafka
        self._topic = topic
        self._notes = notes
        self._owner = owner
        self._exactly_once = exactly_once
        self._table = CompactedTopic(kafka, notes, self._key(""))
        self._open: dict[str | None, Transactions] = {}
        """Producers by the note that each of them is for; None: of those without one."""
        self._known: dict[str, str | None] = {}
        """Notes of positions, as far as this process has read or written them."""

    def open(self) -> None:
        """Have the topics. SinkUnavailable, ConfigError."""
        self.close()
        shape = self._kafka.shape
        wanted = {self._notes: shape.options(is_table=True), self._topic: shape.options()}
        try:
            create_missing(self._kafka, wanted)
        except KafkaUnavailable as error:
            raise SinkUnavailable(str(error)) from error

    def prove(self) -> None:
        """Show that there may be transactions, and leave nothing behind; errors as there."""
        try:
            Transactions(self._kafka, self._name("proof")).close()
        except KafkaUnavailable as error:
            raise SinkUnavailable(str(error)) from error

    def close(self) -> None:
        """Let go of all producers."""
        for each in self._open.values():
            each.close()
        self._open.clear()
        self._known.clear()
        self._table.close()

    def interrupt(self) -> None:
        """Every call ends by itself in time."""

    def take_over(self, name: str) -> None:
        """Fence the process that has written the note before. SinkUnavailable."""
        if (before := self._open.pop(name, None)) is not None:
            before.close()
        self._known.pop(name, None)
        self._producer(name)

    def read(self, prefix: str) -> Mapping[str, str]:
        """All notes whose names begin so. SinkUnavailable."""
        begin = self._key("")
        try:
            found = self._table.read()
        except KafkaUnavailable as error:
            raise SinkUnavailable(str(error)) from error
        wanted = (key for key in found if key.startswith(begin + prefix.encode()))
        return {key[len(begin) :].decode(): found[key].decode() for key in wanted}

    def keep(self, notes: Notes) -> None:
        """Write notes that have no other writer. SinkUnavailable."""
        self._write(None, self._as_records(notes))

    def write(self, change: Change) -> bool:
        """Write rows and notes in one transaction; False if another process has written before.

        SinkUnavailable: they may be written although the call failed. RowsRefused: nothing was
        written.
        """
        self._producer(change.name)
        if change.name not in self._known:
            self._known[change.name] = self.read(change.name).get(change.name)
        if self._known[change.name] != change.expected:
            return False
        self._check_sizes(change.rows)
        notes = change.settle(())
        rows = [Out(self._topic, row.value, row.key.encode()) for row in change.rows]
        if not self._exactly_once:
            # Nothing holds them together: a position may lag behind its rows, but never lead.
            self._write(change.name, rows)
            rows = []
        if not self._write(change.name, [*rows, *self._as_records(notes)]):
            return False
        self._known[change.name] = notes.get(change.name)
        return True

    def _write(self, name: str | None, records: Sequence[Out]) -> bool:
        producer = self._producer(name)
        try:
            is_ours = producer.write(records)
        except (KafkaUnavailable, RecordTooLarge) as error:
            self._forget(name)
            if isinstance(error, RecordTooLarge):
                keys = [(each.key or b"").decode() for each in error.records]
                raise RowsRefused(str(error), keys) from error
            raise SinkUnavailable(str(error)) from error
        if not is_ours:
            self._forget(name)
        return is_ours

    def _producer(self, name: str | None) -> Transactions:
        if name not in self._open:
            called = self._name(name) if name is not None and self._exactly_once else None
            try:
                self._open[name] = Transactions(self._kafka, called)
            except KafkaUnavailable as error:
                raise SinkUnavailable(str(error)) from error
        return self._open[name]

    def _forget(self, name: str | None) -> None:
        """Drop a producer that failed, and the note that may have changed since."""
        if (failed := self._open.pop(name, None)) is not None:
            failed.close()
        if name is not None:
            self._known.pop(name, None)

    def _check_sizes(self, rows: Sequence[Row]) -> None:
        most = self._kafka.shape.max_record_bytes
        large = [row.key for row in rows if len(row.value) + len(row.key) > most]
        if large:
            raise RowsRefused(f"it is larger than a record may be ({most} bytes)", large)

    def _as_records(self, notes: Notes) -> Sequence[Out]:
        return [
            Out(self._notes, (text or "").encode(), self._key(name), deletes=text is None)
            for name, text in notes.items()
        ]

    def _key(self, name: str) -> bytes:
        return f"{self._owner}{_SEPARATOR}{name}".encode()

    def _name(self, name: str) -> str:
        """Return the name of transactions: one for each note of each pipeline of this cluster."""
        return f"{self._notes}/{self._owner}/{name}"
