"""Records in: one batch a partition, from positions that the caller knows."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Self, TypeVar

import structlog

from crawlstream.bus.connect import Kafka, NoTopic
from crawlstream.bus.consumer_session import (
    BatchesRead,
    Event,
    OffsetUnavailable,
    PartitionsAssigned,
    PartitionsRevoked,
    open_session,
)
from crawlstream.bus.protocols import Decide, Locate
from crawlstream.bus.reader import Reader
from crawlstream.bus.records import DEFAULT_LIMITS, Batch, LostRecords, OutOfRange, ReadLimits
from crawlstream.errors import CrawlstreamError
from crawlstream.retry import Backoff
from crawlstream.tasks import end

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
STOP_TIMEOUT_S = 3.0

log = structlog.get_logger()
T = TypeVar("T")


class KafkaSource:
    """Reads one topic as a member of a group, from positions that are kept elsewhere.

    A newly assigned partition is paused; ``locate`` is called for the offset to begin at, and then
    the partition is read. If Kafka does not have a position, ``on_out_of_range`` is called; nothing
    is skipped. Both are called again, with pauses, while they raise. Every placement of a partition
    begins a new *epoch*; batches of an older one are dropped, wherever they are.
    """

    def __init__(
        self,
        kafka: Kafka,
        topic: str,
        *,
        group: str,
        locate: Locate,
        on_out_of_range: Decide,
        limits: ReadLimits = DEFAULT_LIMITS,
    ) -> None:
        self._topic = topic
        self._polls_ahead = limits.polls
        self._locate = locate
        self._decide = on_out_of_range
        self._next_epoch = count(1).__next__
        self._open_session = partial(
            open_session,
            kafka,
            topic,
            group=group,
            next_epoch=self._next_epoch,
            limits=limits,
        )
        self._reader: Reader | None = None
        self._epochs: dict[int, int] = {}
        self._polls: deque[Sequence[tuple[int, Batch]]] = deque()
        self._news = asyncio.Event()
        self._questions: set[asyncio.Task[None]] = set()
        self._paused: dict[int, tuple[int, OutOfRange]] = {}

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Begin to read; while Kafka is down it is tried again and again in the background."""
        loop = asyncio.get_running_loop()

        def tell(event: Event) -> None:
            with contextlib.suppress(RuntimeError):  # The loop may be closed by now.
                loop.call_soon_threadsafe(self._hear, event)

        opening = partial(self._open_session, tell=tell)
        self._reader = Reader(opening, tell, polls=self._polls_ahead)
        self._reader.start()

    async def stop(self) -> None:
        """Leave the group and end the thread, within 3 s."""
        reader, self._reader = self._reader, None
        await end(self._questions)
        if reader is not None:
            reader.finish()
            await asyncio.to_thread(reader.join, STOP_TIMEOUT_S)

    @property
    def is_waiting(self) -> bool:
        """Return whether Kafka has been unavailable for a while, so that nothing can be read."""
        return self._reader is not None and self._reader.is_waiting

    @property
    def obstacle(self) -> str:
        """Return why nothing can be read though Kafka answers: a missing topic or right."""
        if self._reader is None:
            return ""
        return str(NoTopic(self._topic)) if self._reader.lacks_topic else self._reader.refusal

    @property
    def paused(self) -> Mapping[int, OutOfRange]:
        """Partitions of this source that wait for a decision, and where each of them stands."""
        return {
            partition: where
            for partition, (epoch, where) in sorted(self._paused.items())
            if self._epochs.get(partition) == epoch
        }

    async def poll(self, timeout_s: float) -> Sequence[Batch]:
        """Next batches, at most one a partition; empty when none arrived within ``timeout_s``."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not (batches := self._take()):
                    self._news.clear()
                    await self._news.wait()
                return batches
        return ()

    def seek(self, partition: int, offset: int) -> None:
        """Read on from ``offset``: no batch of older reading is returned after this."""
        self._epochs[partition] = epoch = self._next_epoch()
        if self._reader is not None:
            self._reader.place(partition, epoch, offset)

    def ask(self, where: OutOfRange) -> None:
        """Return nothing more of a partition until ``on_out_of_range`` says where it goes on."""
        self._ask(where.partition, self._halt(where.partition), partial(self._follow, where))

    def locate(self, topic_id: str, partition: int) -> None:
        """Return nothing more of a partition until ``locate`` has returned where it goes on.

        It is called again, with pauses, while it raises; the other partitions are read meanwhile.
        """
        self._ask(partition, self._halt(partition), partial(self._find, topic_id, partition))

    def _halt(self, partition: int) -> int:
        """Begin an epoch in which nothing is read."""
        self._epochs[partition] = epoch = self._next_epoch()
        if self._reader is not None:
            self._reader.halt(partition, epoch)
        return epoch

    def pause(self) -> None:
        """Fetch nothing more for now, but stay a member of the group."""
        if self._reader is not None:
            self._reader.hold(on=True)

    def resume(self) -> None:
        """Fetch again."""
        if self._reader is not None:
            self._reader.hold(on=False)

    async def commit(self, positions: Mapping[int, int]) -> None:
        """Report positions to Kafka, for lag tools only; errors are logged and ignored."""
        if self._reader is not None:
            self._reader.commit(positions)

    def _take(self) -> Sequence[Batch]:
        """The oldest poll that holds anything still wanted."""
        while self._polls:
            poll = self._polls.popleft()
            if self._reader is not None:
                self._reader.taken()
            batches = [batch for epoch, batch in poll if epoch == self._epochs.get(batch.partition)]
            if batches:
                return batches
        return ()

    def _hear(self, event: Event) -> None:
        match event:
            case BatchesRead(batches):
                self._polls.append(batches)
                self._news.set()
            case PartitionsRevoked(epochs):
                self._begin(epochs)
            case PartitionsAssigned(topic_id, epochs):
                for partition, epoch in self._begin(epochs).items():
                    self._ask(partition, epoch, partial(self._find, topic_id, partition))
            case OffsetUnavailable(epoch, where):
                if self._begin({where.partition: epoch}):
                    self._ask(where.partition, epoch, partial(self._follow, where))

    def _begin(self, epochs: Mapping[int, int]) -> dict[int, int]:
        """Begin epochs, unless a later one has begun; answer those that have begun."""
        begun = {p: epoch for p, epoch in epochs.items() if epoch >= self._epochs.get(p, 0)}
        self._epochs.update(begun)
        return begun

    def _ask(self, partition: int, epoch: int, ask: Callable[[], Awaitable[int | None]]) -> None:
        question = asyncio.create_task(self._place(partition, epoch, ask))
        self._questions.add(question)
        question.add_done_callback(self._questions.discard)

    async def _place(
        self, partition: int, epoch: int, ask: Callable[[], Awaitable[int | None]]
    ) -> None:
        """Ask until there is an answer or a later epoch, then have the partition read."""
        backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        while self._epochs.get(partition) == epoch:
            try:
                offset = await ask()
            except _StayPaused as paused:
                self._paused[partition] = epoch, paused.where
                return
            except Exception as error:  # noqa: BLE001  a partition must not stand still unsaid
                said = str(error) if isinstance(error, CrawlstreamError) else repr(error)
                log.warning("poll", outcome="not_located", partition=partition, error=said)
                await asyncio.sleep(next(backoff))
                continue
            if self._reader is not None:
                self._reader.place(partition, epoch, offset)
            return

    async def _find(self, topic_id: str, partition: int) -> int | None:
        try:
            return await self._locate(topic_id, partition)
        except LostRecords as lost:
            return await self._follow(lost.where)

    async def _follow(self, where: OutOfRange) -> int:
        log.error("poll", outcome="out_of_range", **_as_fields(where))
        offset = await self._decide(where)
        if offset is None:
            raise _StayPaused(where)
        return offset


class _StayPaused(Exception):
    """The caller has not decided where to go on from."""

    def __init__(self, where: OutOfRange) -> None:
        super().__init__(where.partition)
        self.where = where


def _as_fields(where: OutOfRange) -> dict[str, object]:
    return {
        "partition": where.partition,
        "position": where.position,
        "log_start": where.log_start,
        "log_end": where.log_end,
    }
