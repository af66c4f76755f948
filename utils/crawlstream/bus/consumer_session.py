"""A consumer from its connection to its first unexpected error."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import structlog
from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.coordinator.base import MemberState
from kafka.errors import (
    KafkaError,
    LogTruncationError,
    OffsetOutOfRangeError,
    RetriableError,
)
from kafka.structs import OffsetAndMetadata, TopicPartition

from crawlstream.bus.access.refusals import refusal_of
from crawlstream.bus.connect import Kafka, Network, is_missing, open_client
from crawlstream.bus.records import (
    DEFAULT_LIMITS,
    Batch,
    OutOfRange,
    ReadLimits,
    Record,
    name_of_topic,
)
from crawlstream.bus.unpack import read_quickly
from crawlstream.errors import KafkaRefused, KafkaUnavailable

PARTITION_FETCH_BYTES = 2 * 1024 * 1024
"""Compressed; a larger record comes all the same, alone."""

FETCH_WAIT_MS = 100
"""Maximum time that a resumed partition waits for a fetch in progress without it."""

SESSION_TIMEOUT_MS = 6_000
"""How long the partitions of a killed process lie idle; the least that brokers accept."""

MAX_POLL_INTERVAL_MS = 30_000
"""Time after which a thread that hangs loses its partitions; a rebalance does not wait longer."""

METADATA_AGE_MS = 10_000
"""Time within which a recreated topic is noticed."""

DEAF_AFTER_S = 10.0
"""Time after which overdue metadata will not arrive any more."""

_BOUNDS_TIMEOUT_MS = 2_000
_CLOSE_TIMEOUT_MS = 1_000
_RETRY_PAUSE_S = 0.2

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class PartitionsAssigned:
    """Partitions are assigned and paused until they are placed; epoch by partition."""

    topic_id: str
    epochs: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class PartitionsRevoked:
    """Partitions are revoked, or their positions are void; epoch by partition."""

    epochs: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class BatchesRead:
    """Batches, each with the epoch it was read in."""

    batches: Sequence[tuple[int, Batch]]


@dataclass(frozen=True, slots=True)
class OffsetUnavailable:
    """A partition cannot be read from its position; it waits to be placed again."""

    epoch: int
    where: OutOfRange


Event = PartitionsAssigned | PartitionsRevoked | BatchesRead | OffsetUnavailable
Tell = Callable[[Event], None]


@dataclass(slots=True)
class _Part:
    """An assigned partition. ``epoch`` grows whenever it is assigned or placed."""

    epoch: int
    next: int | None = None
    """Offset after the last record handed out; None until it is placed."""


class ConsumerSession(ConsumerRebalanceListener):  # type: ignore[misc]
    """A consumer that reads only from the positions it was given; for one thread.

    The rebalance listener runs on the client's own thread, but only while the session's thread
    waits for it inside ``read`` or ``close``.
    """

    def __init__(
        self,
        consumer: KafkaConsumer,
        network: Network,
        topic: str,
        *,
        tell: Tell,
        next_epoch: Callable[[], int],
    ) -> None:
        self._consumer = consumer
        self._network = network
        self._topic = topic
        self._tell = tell
        self._next_epoch = next_epoch
        self._parts: dict[int, _Part] = {}
        self._new: set[int] = set()
        self._topic_id = ""
        self._is_fetching = True
        self._heard_at = time.monotonic()

    @property
    def is_connected(self) -> bool:
        """Return whether any broker is connected now."""
        brokers = self._network.cluster.brokers()
        return any(self._network.connected(broker.node_id) for broker in brokers)

    @property
    def refusal(self) -> KafkaRefused | None:
        """Return why a broker refused the connection; None while any broker is connected."""
        return None if self.is_connected else self._network.refusal

    @property
    def lacks_topic(self) -> bool:
        """Return whether Kafka answers and has no such topic."""
        return is_missing(self._network, self._topic)

    def subscribe(self) -> None:
        """Ask to be assigned partitions."""
        self._consumer.subscribe([self._topic], listener=self)

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Stand still, at a position that keeps the client from looking for one of its own."""
        for part in assigned:
            self._stand_still(part.partition)

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Forget the partitions; batches that were read from them are void."""
        gone = [part.partition for part in revoked if part.partition in self._parts]
        for partition in gone:
            del self._parts[partition]
            self._new.discard(partition)
        if gone:
            self._tell(PartitionsRevoked({partition: self._next_epoch() for partition in gone}))

    def announce(self) -> None:
        """Report new partitions, and all of them if the topic was recreated.

        KafkaUnavailable: this consumer does not receive metadata any more.
        """
        self._check_hearing()
        topic_id = self._find_topic_id()
        if topic_id is None:
            return
        if topic_id != self._topic_id:
            self._topic_id = topic_id
            for partition in self._parts:
                self._stand_still(partition)
        if self._new:
            epochs = {partition: self._parts[partition].epoch for partition in self._new}
            self._new.clear()
            self._tell(PartitionsAssigned(topic_id, epochs))

    def place(self, partition: int, epoch: int, offset: int | None) -> None:
        """Read on from ``offset`` (None: the oldest) if nothing newer was said meanwhile.

        RetriableError: Kafka does not say where the partition begins and ends; try again.
        """
        part = self._parts.get(partition)
        if part is None or epoch < part.epoch:
            return
        part.epoch, part.next = epoch, None
        self._new.discard(partition)
        key = self._key(partition)
        self._consumer.pause(key)
        log_start, log_end = self._bounds(key)
        wanted = log_start if offset is None else offset
        if not log_start <= wanted <= log_end:
            where = OutOfRange(self._topic_id, partition, wanted, log_start, log_end)
            self._tell(OffsetUnavailable(epoch, where))
            return
        self._consumer.seek(key, wanted)
        part.next = wanted
        if self._is_fetching:
            self._consumer.resume(key)

    def halt(self, partition: int, epoch: int) -> None:
        """Fetch nothing of a partition until it is placed."""
        part = self._parts.get(partition)
        if part is None or epoch < part.epoch:
            return
        part.epoch, part.next = epoch, None
        self._new.discard(partition)
        self._consumer.pause(self._key(partition))

    def fetch(self, on: bool) -> None:  # noqa: FBT001  a switch
        """Fetch from all placed partitions, or from none."""
        if on == self._is_fetching:
            return
        self._is_fetching = on
        placed = [self._key(p) for p, part in self._parts.items() if part.next is not None]
        (self._consumer.resume if on else self._consumer.pause)(*placed)

    def read(self, timeout_ms: int) -> Sequence[tuple[int, Batch]]:
        """Poll: take part in the group's life, and return what has arrived."""
        self._keep_joining()
        try:
            polled = self._consumer.poll(timeout_ms=timeout_ms)
        except OffsetOutOfRangeError as error:
            self._stop_at(error.args[0])
            return ()
        except LogTruncationError as error:
            self._stop_at(error.divergent_offsets, has_diverged=True)
            return ()
        except RetriableError as error:
            log.info("poll", outcome="waiting", error=str(error))
            time.sleep(_RETRY_PAUSE_S)
            return ()
        return [
            (self._parts[key.partition].epoch, self._take(key.partition, records))
            for key, records in polled.items()
            if records and key.partition in self._parts
        ]

    def commit(self, positions: Mapping[int, int]) -> None:
        """Hand positions to Kafka and do not wait."""
        if ours := self._as_offsets(positions):
            self._consumer.commit_async(ours, callback=_note_commit)

    def close(self, positions: Mapping[int, int]) -> None:
        """Commit for the last time and leave the group, within about two seconds."""
        try:
            if ours := self._as_offsets(positions):
                self._consumer.commit(ours, timeout_ms=_CLOSE_TIMEOUT_MS)
        except KafkaError as error:
            _note_commit(positions, error)
        finally:
            self._consumer.close(autocommit=False, timeout_ms=_CLOSE_TIMEOUT_MS)
            self.on_partitions_revoked([self._key(partition) for partition in self._parts])

    def _as_offsets(self, positions: Mapping[int, int]) -> dict[TopicPartition, OffsetAndMetadata]:
        return {
            self._key(partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in positions.items()
            if partition in self._parts
        }

    def _take(self, partition: int, records: Sequence[Record]) -> Batch:
        part = self._parts[partition]
        end = records[-1].offset + 1
        start = records[0].offset if part.next is None else part.next
        part.next = end
        return Batch(self._topic_id, partition, start, end, records, self._leader_epoch(partition))

    def _leader_epoch(self, partition: int) -> int:
        """Return the leader epoch of the last record read; it identifies the log."""
        assigned = self._consumer._subscription.assignment  # noqa: SLF001 no public name
        position = assigned[self._key(partition)].position
        return -1 if position is None else int(position.leader_epoch)

    def _stand_still(self, partition: int) -> None:
        key = self._key(partition)
        self._consumer.pause(key)
        self._consumer.seek(key, 0)
        self._parts[partition] = _Part(self._next_epoch())
        self._new.add(partition)

    def _stop_at(self, keys: Iterable[TopicPartition], *, has_diverged: bool = False) -> None:
        """The position of these partitions is not in Kafka (any more): ask what to do."""
        for key in keys:
            part = self._parts.get(key.partition)
            if part is None or part.next is None:
                continue
            self._consumer.pause(key)
            position, part.next = part.next, None
            part.epoch = self._next_epoch()
            log_start, log_end = self._bounds(key)
            where = OutOfRange(
                *(self._topic_id, key.partition, position, log_start, log_end),
                has_diverged=has_diverged,
            )
            self._tell(OffsetUnavailable(part.epoch, where))

    def _bounds(self, key: TopicPartition) -> tuple[int, int]:
        starts = self._consumer.beginning_offsets([key], timeout_ms=_BOUNDS_TIMEOUT_MS)
        ends = self._consumer.end_offsets([key], timeout_ms=_BOUNDS_TIMEOUT_MS)
        return starts[key], ends[key]

    def _check_hearing(self) -> None:
        """Detect that kafka-python has stopped refreshing its metadata.

        The task that does so dies silently if its first answer arrives while the consumer is still
        being made; a consumer without metadata is never assigned anything.
        """
        if self._network.cluster.ttl() > 0:
            self._heard_at = time.monotonic()
        elif time.monotonic() - self._heard_at > DEAF_AFTER_S:
            raise KafkaUnavailable("the Kafka consumer has stopped refreshing its metadata")

    def _keep_joining(self) -> None:
        """Complete a join that has begun.

        kafka-python joins again when the topic's partitions have changed, but considers it done as
        soon as it is the leader: if the rest takes longer than one poll, the join is never resumed.
        """
        coordinator = self._consumer._coordinator  # noqa: SLF001 no public name
        if coordinator.state is MemberState.REBALANCING:
            coordinator.rejoin_needed = True

    def _find_topic_id(self) -> str | None:
        cluster = self._network.cluster
        if cluster.partitions_for_topic(self._topic) is None:
            return None
        return name_of_topic(cluster.topic_id(self._topic), self._topic)

    def _key(self, partition: int) -> TopicPartition:
        return TopicPartition(self._topic, partition)


def open_session(
    kafka: Kafka,
    topic: str,
    *,
    group: str,
    tell: Tell,
    next_epoch: Callable[[], int],
    limits: ReadLimits = DEFAULT_LIMITS,
) -> ConsumerSession:
    """Connect and subscribe; KafkaUnavailable if Kafka does not answer."""
    consumer, network = open_client(
        KafkaConsumer,
        **kafka.options(),
        group_id=group,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="none",
        allow_auto_create_topics=False,
        max_poll_records=limits.records,
        fetch_max_bytes=limits.fetch_bytes,
        max_partition_fetch_bytes=PARTITION_FETCH_BYTES,
        fetch_max_wait_ms=FETCH_WAIT_MS,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=SESSION_TIMEOUT_MS // 3,
        max_poll_interval_ms=MAX_POLL_INTERVAL_MS,
        metadata_max_age_ms=METADATA_AGE_MS,
        metrics_enabled=False,
    )
    read_quickly(consumer, traces=kafka.reads_traces)
    _heed_refused_heartbeats(consumer)
    session = ConsumerSession(consumer, network, topic, tell=tell, next_epoch=next_epoch)
    session.subscribe()
    return session


def _heed_refused_heartbeats(consumer: KafkaConsumer) -> None:
    """Have the next poll raise KafkaRefused after a heartbeat that only a person can mend.

    kafka-python only logs it, forgets its coordinator and finds the same one again, permanently.
    A refused commit needs nothing of the kind: it lacks the right that heartbeats lack, too.
    """
    coordinator = consumer._coordinator  # noqa: SLF001 no public name
    send = coordinator._send_heartbeat_request  # noqa: SLF001

    async def send_or_refuse() -> None:
        try:
            await send()
        except KafkaError as error:
            if refused := refusal_of(error):
                raise refused from error
            raise

    coordinator._send_heartbeat_request = send_or_refuse  # noqa: SLF001


def _note_commit(positions: object, answer: object) -> None:
    if isinstance(answer, Exception):
        log.info("poll", outcome="not_committed", error=str(answer), positions=str(positions))
