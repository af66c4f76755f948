"""Where the reading of requests begins, where each partition of the frontier has its own position.

What has gone back is read again from its own position: those that are ahead skip what they have.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from crawlstream.bus.connect import Kafka
from crawlstream.bus.history import partition_offsets
from crawlstream.bus.records import Batch, Record
from crawlstream.keys import Topics
from crawlstream.model.crawl import CrawlKey
from kafka_monitor.partitions.intake import DividedIntake


class DividedPositions:
    """What `IntakeLoop` asks of positions; see `Recovery` for a frontier of one partition."""

    def __init__(self, intake: DividedIntake, kafka: Kafka, topics: Topics, *, group: str) -> None:
        self._intake = intake
        self._offsets = partial(partition_offsets, kafka, topics.incoming, group=group)

    async def locate(self, topic_id: str, partition: int) -> int:
        """The offset to read a Kafka partition from; Unavailable."""
        found = await self._offsets()
        offsets = found[partition]
        # More than there is was committed for a topic of this name that is gone.
        committed = offsets.committed or 0
        return await self._intake.begin(
            topic_id,
            partition,
            offsets.oldest,
            committed=committed if committed <= offsets.end else 0,
        )

    def note_reached(self, partition: int, position: int) -> None:
        """The intake knows its positions itself."""

    async def misplaced(self) -> dict[int, str]:
        """Topic UUID by Kafka partition, of those to be read from an earlier offset on."""
        return {partition: topic_id for topic_id, partition in await self._intake.misplaced()}

    def is_past(self, _partition: int, _offset: int) -> bool:
        """Never: who has what is for each partition to say."""
        return False

    def is_over(self, _crawl: CrawlKey, _record: Record) -> bool:
        """Never: homes say so."""
        return False

    async def note_steering(self, _batch: Batch, _effects: Sequence[object]) -> None:
        """Homes note their stops themselves."""
