"""Endings of runs, on their way to Kafka: remembered for their homes, and told to be there."""

from __future__ import annotations

from collections.abc import Sequence

from crawlstream.bus.records import Out
from crawlstream.keys import Topics
from crawlstream.model.effects import OutboxRecord, OwedSchedule
from crawlstream.model.partitions.messages import HomeMark
from crawlstream.wire import run_marks
from crawlstream_frontier.partition_calls.coordinator import Coordinator


class EndingRecords:
    """The home of crawls in one partition, whose outbox is being published."""

    def __init__(self, partition: int, home: Coordinator) -> None:
        self._partition = partition
        self._home = home

    def marks(self, owed: OutboxRecord, topics: Topics) -> Sequence[Out]:
        """Return the marks of an ending that the home receives if it goes back to before it."""
        if owed.generation is None:
            return ()
        mark = HomeMark(
            kind="end",
            redis_epoch=owed.redis_epoch,
            crawl=owed.crawl,
            generation=owed.generation,
            run=owed.run,
            positions=owed.positions,
            remember=owed.remember,
        )
        key = topics.home_key(self._partition, mark)
        return [Out(topics.runs, run_marks.encode_home(self._partition, mark), key, partition=0)]

    async def published(self, owed: Sequence[OutboxRecord | OwedSchedule]) -> None:
        """Kafka has these: the next runs of their crawls may be worked for; RedisUnavailable."""
        for one in owed:
            if isinstance(one, OutboxRecord) and one.generation is not None:
                await self._home.published(one.crawl, one.run)
