"""Records of ended runs on their way to Kafka, and their acknowledgement to the coordinator."""

from __future__ import annotations

from collections.abc import Sequence

from crawlstream.bus.records import Out
from crawlstream.keys import Topics
from crawlstream.model.effects import OutboxRecord, OutboxSchedule
from crawlstream.model.partitions.messages import CoordinatorMark
from crawlstream.wire import run_marks
from crawlstream_frontier.partition_calls.coordinator import Coordinator


class EndingRecords:
    """The coordinator of crawls in one partition, whose outbox is being published."""

    def __init__(self, partition: int, coordinator: Coordinator) -> None:
        self._partition = partition
        self._coordinator = coordinator

    def marks(self, owed: OutboxRecord, topics: Topics) -> Sequence[Out]:
        """Return the marks of an ending, for a coordinator that goes back to before it."""
        if owed.generation is None:
            return ()
        mark = CoordinatorMark(
            kind="end",
            redis_epoch=owed.redis_epoch,
            crawl=owed.crawl,
            generation=owed.generation,
            run=owed.run,
            positions=owed.positions,
            remember=owed.remember,
        )
        key = topics.coordinator_key(self._partition, mark)
        return [
            Out(
                topics.runs,
                run_marks.encode_coordinator_mark(self._partition, mark),
                key,
                partition=0,
            )
        ]

    async def published(self, owed: Sequence[OutboxRecord | OutboxSchedule]) -> None:
        """Kafka has these: the next runs of their crawls may be worked for; RedisUnavailable."""
        for one in owed:
            if isinstance(one, OutboxRecord) and one.generation is not None:
                await self._coordinator.published(one.crawl, one.run)
