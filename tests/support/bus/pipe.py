"""Kafka in, a ledger out: what the bus' tests are made of."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import pytest

from crawlstream.bus.connect import Kafka
from crawlstream.bus.protocols import Decide, Locate
from crawlstream.bus.records import Batch, Out, OutOfRange
from crawlstream.bus.sink import KafkaSink
from crawlstream.bus.source import KafkaSource

MIB = 1024 * 1024

LEAVES_SOCKETS = [
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.usefixtures("sockets_collected"),
]
"""kafka-python leaves the socket of a refused connection to the garbage collector."""


class Ledger:
    """Positions and effects as the frontier keeps them: a batch counts from the position on."""

    def __init__(self) -> None:
        self.positions: dict[int, int] = {}
        self.effects: defaultdict[int, list[int]] = defaultdict(list)
        self.values: list[bytes | None] = []
        self.located: list[tuple[str, int]] = []
        self.astray: list[OutOfRange] = []

    async def locate(self, topic_id: str, partition: int) -> int | None:
        """Where to begin."""
        self.located.append((topic_id, partition))
        return self.positions.get(partition)

    async def go_to_start(self, where: OutOfRange) -> int | None:
        """Decide for the oldest record there is."""
        self.astray.append(where)
        return where.log_start

    async def stay(self, where: OutOfRange) -> int | None:
        """Decide nothing."""
        self.astray.append(where)
        return None

    def apply(self, source: KafkaSource, batch: Batch) -> None:
        """Apply what is new in a batch; seek back where records are missing before it."""
        position = self.positions.get(batch.partition, 0)
        if batch.start > position:
            source.seek(batch.partition, position)
            return
        for record in batch.records:
            if record.offset >= position:
                self.effects[batch.partition].append(record.offset)
                self.values.append(record.value)
        self.positions[batch.partition] = max(position, batch.next)

    async def follow(self, source: KafkaSource) -> None:
        """Apply all records, without an end."""
        while True:
            for batch in await source.poll(0.5):
                self.apply(source, batch)

    def assert_each_once(self) -> None:
        """Every offset up to the position took effect once, in order."""
        for partition, offsets in self.effects.items():
            assert offsets == list(range(self.positions[partition]))


@dataclass(frozen=True)
class Pipe:
    """A topic of four partitions, a way in, and a ledger at the way out."""

    hosts: Sequence[str]
    topic: str
    sink: KafkaSink
    ledger: Ledger

    async def send(self, numbers: range) -> None:
        """Send numbered records, spread over the partitions by their keys."""
        await self.sink.send([Out(self.topic, b"%d" % n, b"%d" % n) for n in numbers])

    async def send_to_one(self, count: int) -> None:
        """Send records that all go to the same partition."""
        await self.sink.send([Out(self.topic, b"x", b"same key")] * count)

    def source(self, locate: Locate | None = None, decide: Decide | None = None) -> KafkaSource:
        """A source of the one group of this topic."""
        return KafkaSource(
            Kafka(self.hosts),
            self.topic,
            group=self.topic,
            locate=locate or self.ledger.locate,
            on_out_of_range=decide or self.ledger.go_to_start,
        )

    @contextlib.asynccontextmanager
    async def following(self) -> AsyncIterator[KafkaSource]:
        """A running source whose batches are applied all the time."""
        async with self.source() as source:
            task = asyncio.create_task(self.ledger.follow(source))
            try:
                yield source
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def apply_until(self, source: KafkaSource, count: int) -> None:
        """Apply batches until ``count`` records have taken effect."""
        while len(self.ledger.values) < count:
            for batch in await source.poll(5):
                self.ledger.apply(source, batch)
