"""Records out: lists of them, each acknowledged as a whole."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Self

from crawlstream.bus.connect import Kafka
from crawlstream.bus.delivery import Delivery, PlacedDelivery
from crawlstream.bus.records import NO_OFFSET, NotAcknowledged, Out
from crawlstream.bus.topics import TopicMaker
from crawlstream.bus.writer import DELIVERY_TIMEOUT_S, LINGER_MS, QUEUE_TIMEOUT_S, Writer
from crawlstream.errors import ConfigError, KafkaRefused
from crawlstream.model.event import RecordPlace

MAX_BYTES = 32 * 1024 * 1024
MAX_RECORDS = 10_000
"""Limits on data in flight; the client library itself has no limit."""

FEW = 2
"""Lists that came within a quarter of the time that they may linger do not wait for the rest."""

SOON_MS = 5
"""Time that a record may linger which a client waits for, where others have just been handed over:
under load such records share requests, too."""

_VERDICT_TIMEOUT_S = DELIVERY_TIMEOUT_S + QUEUE_TIMEOUT_S
_STOP_TIMEOUT_S = _VERDICT_TIMEOUT_S + 3
_LOOK_EVERY_S = 0.5


class KafkaSink:
    """Writes lists of records and returns when Kafka has all of them (acks=all, idempotent).

    Nothing here blocks the event loop: lists go to a thread of their own, and one wake-up comes
    back for all that have their verdict. At most 32 MiB and 10 000 records are in flight; more wait
    in ``send``. Larger records than ``kafka.shape.max_record_bytes`` are refused; the topics of
    ``optional`` records are created in this shape. A record waits up to ``linger_ms`` for others to
    share a request with, a quarter of it where few come; for single records of 1 KB that costs a
    quarter of the CPU time. Longer times are spent on this side of the bridge: each handover wakes
    two threads, one after the other, and each takes the interpreter from this one. A record that
    is to be placed does not linger, as a client waits for it.
    """

    _loop: asyncio.AbstractEventLoop

    def __init__(
        self,
        kafka: Kafka,
        *,
        linger_ms: int = LINGER_MS,
        topics: Collection[str] = (),
    ) -> None:
        """``topics``: their first records are as quick as later ones; others may be written to."""
        self._kafka = kafka
        self._linger_ms = linger_ms
        self._expected = topics
        self._topics = TopicMaker(kafka)
        self._room = _InFlightLimit()
        self._writer: Writer | None = None
        self._gathered: list[Delivery] = []
        self._hurries_at = 0.0
        """When records that clients wait for may be handed over again, by the loop's time."""
        self._under_way: dict[Delivery, tuple[asyncio.Future[None], float]] = {}
        """Oldest first, each with the time by which there must be a verdict."""
        self._finished: deque[Delivery] = deque()
        self._is_woken = False
        self._is_watched = False

    async def __aenter__(self) -> Self:
        """Wait, however long, until Kafka answers; cancelled, nothing is left running."""
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Wait, however long, until Kafka answers; may be cancelled (then call ``stop``).

        ConfigError: it refuses us, and ``stop`` is to be called, too.
        """
        self._loop = asyncio.get_running_loop()
        ready: asyncio.Future[KafkaRefused | None] = self._loop.create_future()

        def tell(refused: KafkaRefused | None) -> None:
            if not ready.done():
                ready.set_result(refused)

        self._writer = Writer(
            self._kafka,
            on_ready=lambda refused: self._call_on_loop(partial(tell, refused)),
            topics=self._expected,
        )
        self._writer.start()
        if refused := await ready:
            raise ConfigError(str(refused)) from refused

    async def stop(self) -> None:
        """Wait for the verdict on records in flight, 22 s at most, and end the thread."""
        self._hand_over()
        writer, self._writer = self._writer, None
        if writer is None:
            return
        writer.finish()
        await asyncio.to_thread(writer.join, _STOP_TIMEOUT_S)
        # The last verdicts were handed to the loop before the thread ended: let them arrive.
        await asyncio.sleep(0)
        for delivery in list(self._under_way):
            self._settle(
                delivery, NotAcknowledged("the Kafka producer was stopped", delivery.records)
            )

    async def send(self, records: Sequence[Out]) -> Sequence[int]:
        """Return when Kafka has acknowledged all ``records``, with their offsets.

        It waits for room first. ``NO_OFFSET`` is used as in `Sink.send`.

        KafkaUnavailable: none were sent, as it is not known if the topic of an optional record
        exists; repeat. NotAcknowledged: not all were acknowledged within 19 s; repeat those.
        RecordTooLarge: all others were acknowledged, but these records never will be. Cancelling
        does not take back records in flight.
        """
        wanted = [r for r in records if not r.optional or await self._topics.ensure(r.topic)]
        if not wanted:
            return [NO_OFFSET] * len(records)
        delivery = Delivery(wanted, self._note_finished)
        await self._acknowledged(delivery)
        if len(wanted) == len(records):
            return delivery.offsets
        found = dict(zip(map(id, wanted), delivery.offsets, strict=True))
        return [found.get(id(record), NO_OFFSET) for record in records]

    async def place(self, record: Out) -> RecordPlace:
        """Return where Kafka has stored a record, which does not linger; errors as of ``send``."""
        delivery = PlacedDelivery(record, self._note_finished)
        await self._acknowledged(delivery, is_awaited=True)
        (offset,) = delivery.offsets
        topic_id = self._writer.topic_id(record.topic) if self._writer else ""
        return RecordPlace(topic_id, delivery.partition, None if offset == NO_OFFSET else offset)

    async def _acknowledged(self, delivery: Delivery, *, is_awaited: bool = False) -> None:
        """Hand over a list, and return when Kafka has acknowledged it."""
        await self._room.enter(delivery)
        if self._writer is None:
            self._room.leave(delivery)
            raise NotAcknowledged("the Kafka producer is not running", delivery.records)
        verdict: asyncio.Future[None] = self._loop.create_future()
        self._under_way[delivery] = verdict, self._loop.time() + _VERDICT_TIMEOUT_S
        if not self._is_watched:
            self._watch()
        self._gathered.append(delivery)
        if self._linger_ms <= LINGER_MS:
            self._hand_over()
        elif is_awaited:
            self._loop.call_at(max(self._hurries_at, self._loop.time()), self._hand_over_awaited)
        elif len(self._gathered) == 1:
            self._loop.call_later(self._linger_ms / 4000, self._hand_over_few)
        await verdict

    def _hand_over_awaited(self) -> None:
        """Hand over all that has come meanwhile, too; the next ones may come a little later."""
        if self._gathered:
            self._hurries_at = self._loop.time() + SOON_MS / 1000
        self._hand_over()

    def _hand_over_few(self) -> None:
        if len(self._gathered) <= FEW:
            self._hand_over()
        else:
            self._loop.call_later(self._linger_ms * 3 / 4000, self._hand_over)

    def _hand_over(self) -> None:
        gathered, self._gathered = self._gathered, []
        if gathered and self._writer is not None:
            self._writer.submit(gathered)

    def _note_finished(self, delivery: Delivery) -> None:
        """On a thread of Kafka's client: verdicts that arrive before the wake-up share it."""
        self._finished.append(delivery)
        if not self._is_woken:
            self._is_woken = True
            self._call_on_loop(self._collect)

    def _collect(self) -> None:
        self._is_woken = False
        while self._finished:
            delivery = self._finished.popleft()
            self._settle(delivery, delivery.outcome())

    def _call_on_loop(self, call: Callable[[], object]) -> None:
        """From another thread; a loop that is closed is past."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call)

    def _watch(self) -> None:
        """Give up records that have had no verdict for too long, while any are in flight."""
        now, self._is_watched = self._loop.time(), bool(self._under_way)
        for delivery, (_, verdict_by) in list(self._under_way.items()):
            if verdict_by > now:
                break
            self._give_up(delivery)
        if self._is_watched:
            self._loop.call_later(_LOOK_EVERY_S, self._watch)

    def _give_up(self, delivery: Delivery) -> None:
        if self._writer is not None:
            self._writer.distrust()
        error = NotAcknowledged("the Kafka client does not respond", delivery.records)
        self._settle(delivery, error)

    def _settle(self, delivery: Delivery, error: Exception | None) -> None:
        if delivery not in self._under_way:
            return
        verdict, _ = self._under_way.pop(delivery)
        self._room.leave(delivery)
        for record in delivery.records if error else ():
            if record.optional:
                self._topics.forget(record.topic)
        if verdict.cancelled():
            return
        if error is None:
            verdict.set_result(None)
        else:
            verdict.set_exception(error)


class _InFlightLimit:
    """The limit on data in flight: first come, first served; an oversized list goes alone."""

    def __init__(self) -> None:
        self._bytes = self._records = 0
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()

    async def enter(self, delivery: Delivery) -> None:
        """Wait until there is room for a list."""
        size, count = delivery.size, len(delivery.records)
        async with self._turn:
            while self._records and (
                self._bytes + size > MAX_BYTES or self._records + count > MAX_RECORDS
            ):
                self._freed.clear()
                await self._freed.wait()
            self._bytes += size
            self._records += count

    def leave(self, delivery: Delivery) -> None:
        """Give the room of a list back."""
        self._bytes -= delivery.size
        self._records -= len(delivery.records)
        self._freed.set()
