"""Redis is disposable: where each partition goes on, and what of a lost Redis begins again.

A frontier without a position of a partition that the group has committed was lost. Its records are
read again from the oldest: below the committed offset only the crawl requests take effect whose
crawl has not come to its end, as ``<prefix>.runs`` tells; above it everything does. What had been
refused, answered or stopped is not refused, answered or stopped again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from crawlstream.bus.history import Held, everything, held, marks_of
from crawlstream.bus.records import Batch, Out, Record
from crawlstream.bus.sink import KafkaSink
from crawlstream.frontier.positions import Positions
from crawlstream.keys import Topics
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.effects import Command, Loss
from crawlstream.model.event import Rejection
from crawlstream.model.runs import STOP, Past, RunMark
from crawlstream.wire import rejects, runs

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Replay:
    """The part of a partition that is read again."""

    topic_id: str
    until: int
    past: Past


class Recovery:
    """Says where partitions go on; knows which of them read their past again."""

    def __init__(
        self,
        positions: Positions,
        sink: KafkaSink,
        topics: Topics,
        *,
        hosts: Sequence[str],
        group: str,
    ) -> None:
        self._positions = positions
        self._sink = sink
        self._topics = topics
        self._held = partial(held, hosts, topics.incoming, group=group)
        self._everything = partial(everything, hosts, topics.runs)
        self._located: dict[int, str] = {}
        self._replays: dict[int, Replay] = {}

    async def locate(self, topic_id: str, partition: int) -> int:
        """The offset to read a partition from; Unavailable where a service does not answer."""
        position = (await self._positions.known()).get((topic_id, partition))
        if position is None:
            position = await self._begin(topic_id, partition)
        self._located[partition] = topic_id
        until = await self._positions.lost_until(topic_id, partition)
        self._replays.pop(partition, None)
        if until is not None and position < until:
            past = Past(await self._marks())
            self._replays[partition] = Replay(topic_id, until, past)
            log.warning("recover", partition=partition, position=position, until=until)
        return position

    async def forgotten(self) -> dict[int, str]:
        """Topic UUID by partition, of those that the frontier has forgotten: Redis was lost."""
        known = await self._positions.known()
        return {p: topic_id for p, topic_id in self._located.items() if (topic_id, p) not in known}

    def is_past(self, partition: int, offset: int) -> bool:
        """Whether a record had taken effect already, in a Redis that was lost."""
        replay = self._replays.get(partition)
        return replay is not None and offset < replay.until

    def is_over(self, crawl: CrawlKey, record: Record) -> bool:
        """Whether a seed of the past is not to be crawled again."""
        replay = self._replays[record.partition]
        place = f"{replay.topic_id}:{record.partition}"
        return replay.past.is_over(crawl, place, offset=record.offset, at_ms=record.timestamp_ms)

    async def note_stops(self, batch: Batch, effects: Sequence[object]) -> None:
        """Have Kafka remember the stops of a batch before they take effect."""
        place = f"{batch.topic_id}:{batch.partition}"
        marks = [
            RunMark(
                crawl=effect.crawl,
                state=STOP,
                positions={place: effect.offset + 1},
                at_ms=effect.timestamp_ms,
            )
            for effect in effects
            if isinstance(effect, Command) and effect.name == "stop" and effect.crawl is not None
        ]
        if marks:
            topic = self._topics.runs
            await self._sink.send([Out(topic, runs.encode(m), Topics.run_key(m)) for m in marks])

    async def _begin(self, topic_id: str, partition: int) -> int:
        """Where a partition begins that the frontier has no position of."""
        records = await self._everything()
        if not records:
            # Before the first effect, so that a loss is told from the first start.
            await self._sink.send([Out(self._topics.runs, runs.EPOCH, runs.EPOCH_KEY)])
        found = (await self._held())[partition]
        topics = {topic for topic, _ in await self._positions.known()}
        if topics and topic_id not in topics:
            await self._tell_of_another_topic(topic_id, partition, found)
        if found.committed is None or not records:
            offset = found.oldest if found.committed is None else found.committed
            return await self._positions.restore(
                Loss(topic_id=topic_id, kafka_partition=partition, offset=offset)
            )
        past = Past(await self._marks())
        log.error(
            "recover", partition=partition, until=found.committed, unfinished=len(past.unfinished())
        )
        return await self._positions.restore(
            Loss(
                topic_id=topic_id,
                kafka_partition=partition,
                offset=found.oldest,
                until=found.committed,
                floor=past.floor,
                runs=past.unfinished(),
            )
        )

    async def _tell_of_another_topic(self, topic_id: str, partition: int, found: Held) -> None:
        sentence = (
            f"the topic is not the one that was read before: it was made anew as {topic_id}. It is"
            " read from its beginning; what the old one held and had not taken effect is lost"
        )
        log.error("poll", outcome="another_topic", partition=partition, error=sentence)
        rejection = Rejection(
            reason="another_topic",
            errors=[f"$: {sentence}"],
            raw=None,
            topic=self._topics.incoming,
            partition=partition,
            offset=found.oldest,
        )
        key = f"{self._topics.incoming}-{partition}-{topic_id}".encode()
        await self._sink.send([Out(self._topics.rejected, rejects.encode(rejection), key)])

    async def _marks(self) -> list[RunMark]:
        return marks_of(await self._everything())
