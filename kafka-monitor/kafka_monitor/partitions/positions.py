"""Where the reading of requests begins, where each partition of the frontier has its own position.

What has gone back is read again from its own position: those that are ahead skip what they have.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from crawlstream.bus.connect import Kafka
from crawlstream.bus.history import partition_offsets
from crawlstream.bus.records import Batch, Record
from crawlstream.keys import Topics
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.effects import Command, Effect, ScheduleChange
from kafka_monitor.partitions.divided_intake import DividedIntake

STEERING = frozenset({"stop", "pause", "resume", "reprioritize"})
ANSWERED_S = 600
"""Seconds after which a query has been answered, or its client no longer waits."""


class DividedPositions:
    """Positions as `IntakeLoop` uses them; see `Recovery` for a frontier of one partition."""

    def __init__(self, intake: DividedIntake, kafka: Kafka, topics: Topics, *, group: str) -> None:
        self._intake = intake
        self._offsets = partial(partition_offsets, kafka, topics.incoming, group=group)
        self._committed: dict[int, int] = {}
        self._topic_ids: dict[int, str] = {}
        self._unsettled: set[int] = set()

    async def locate(self, topic_id: str, partition: int) -> int:
        """The offset to read a Kafka partition from; Unavailable."""
        found = (await self._offsets())[partition]
        self._committed[partition] = found.applied
        self._topic_ids[partition] = topic_id
        return await self._intake.begin(topic_id, partition, found.oldest, committed=found.applied)

    def note_reached(self, partition: int, position: int) -> None:
        """All partitions have come so far, but for those that are left behind."""
        self._committed[partition] = max(position, self._committed.get(partition, 0))

    def settled(self, partition: int, reached: int) -> int:
        """Return the offset up to which all has taken effect, also where left behind."""
        settled = self._intake.settled((self._topic_ids[partition], partition), reached)
        (self._unsettled.add if settled < reached else self._unsettled.discard)(partition)
        return settled

    def caught_up(self) -> dict[int, int]:
        """Return positions by Kafka partition that were lower than the offset reached."""
        return {each: self.settled(each, self._committed[each]) for each in [*self._unsettled]}

    async def misplaced(self) -> dict[int, str]:
        """Topic UUID by Kafka partition, of those to be read from an earlier offset on."""
        return {partition: topic_id for topic_id, partition in await self._intake.misplaced()}

    def is_past(self, partition: int, offset: int) -> bool:
        """Return whether all had come further before: the group's commit never goes back."""
        return offset < self._committed.get(partition, 0)

    def is_over(self, _crawl: CrawlKey, _record: Record) -> bool:
        """Return False: coordinators decide whether a run is over."""
        return False

    def steer_again(self, effect: Command | ScheduleChange) -> Effect | None:
        """Return the effect again if a coordinator has forgotten it.

        An old query has been answered long ago; a recent one may not have been.
        """
        if not isinstance(effect, Command) or effect.name not in STEERING:
            return None
        is_late = effect.timestamp_ms < (time.time() - ANSWERED_S) * 1000
        return replace(effect, request=b"") if is_late else effect

    async def note_steering(self, _batch: Batch, _effects: Sequence[object]) -> None:
        """Coordinators note their stops themselves."""
