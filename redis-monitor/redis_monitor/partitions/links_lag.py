"""How far partitions are behind with the links that others have found for them."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from crawlstream.bus.connect import Kafka
from crawlstream.bus.history import topic_id_of
from crawlstream.bus.tail import end_offsets
from crawlstream_frontier.partitions.frontiers import Frontiers
from redis_monitor import metrics


@dataclass(slots=True)
class UnreadLinks:
    """Links that a partition has not read, from one look to the next."""

    position: int = 0
    """The last that is known: of one that is away, the one before."""
    _ends: deque[tuple[float, int]] = field(default_factory=deque)
    """When the log was seen to have an end behind the position, the oldest first."""

    def look(self, now: float, end: int, position: int | None) -> tuple[int, float]:
        """Records behind the position, and for how many seconds the oldest has waited at least."""
        if position is not None:
            self.position = position
        if end > (self._ends[-1][1] if self._ends else self.position):
            self._ends.append((now, end))
        while self._ends and self._ends[0][1] <= self.position:
            self._ends.popleft()
        waited_s = now - self._ends[0][0] if self._ends else 0.0
        return max(end - self.position, 0), waited_s


class LinksLag:
    """Looks at Kafka and at all partitions, and reports the lag."""

    def __init__(
        self,
        frontiers: Frontiers,
        kafka: Kafka,
        topic: str,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._frontiers = frontiers
        self._kafka = kafka
        self._topic = topic
        self._clock = clock
        self._topic_id = ""
        self._waiting = defaultdict[int, UnreadLinks](UnreadLinks)

    async def look(self) -> None:
        """Look once; KafkaUnavailable, RedisUnavailable: nothing was reported."""
        self._topic_id = self._topic_id or await topic_id_of(self._kafka, self._topic)
        answers = await self._frontiers.query(lambda each: each.positions.known())
        # Positions first: a record that comes meanwhile counts as waiting, none is passed over.
        ends = await end_offsets(self._kafka, self._topic)
        self.report(
            {
                p: (end, self._position(p, answers.by_partition.get(p)))
                for p, end in ends.items()
                if p < len(self._frontiers)
            }
        )

    def report(self, found: Mapping[int, tuple[int, int | None]]) -> None:
        """Report each partition, with its end and position; None: it does not answer."""
        for p, (end, position) in found.items():
            records, seconds = self._waiting[p].look(self._clock(), end, position)
            metrics.LINKS_LAG.labels(f"{p}").set(records)
            metrics.LINKS_WAIT.labels(f"{p}").set(seconds)

    def _position(self, partition: int, known: Mapping[tuple[str, int], int] | None) -> int | None:
        return None if known is None else known.get((self._topic_id, partition), 0)
