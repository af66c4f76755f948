"""Stops, looked for ahead of the seeds that wait for a full Redis: they are what empties it.

While seeds wait, nothing behind them is read by the loop, in no partition. So what stands there is
looked through once for stops, which the frontier lets take effect before their turn.
"""

from __future__ import annotations

import asyncio

import structlog

from crawlstream.bus.connect import Kafka
from crawlstream.bus.records import Batch, Record
from crawlstream.bus.tail import end_offsets, read_topic
from crawlstream.errors import InvalidRequest, InvalidUrl, Unavailable
from crawlstream.model.effects import Command
from crawlstream.plugins.handlers import Router
from crawlstream_frontier.intake import FrontierIntake
from kafka_monitor.plugins.action_handler import ActionHandler
from kafka_monitor.recovery import Recovery

LOOK_EVERY_S = 2.0
_TRACE = b"stop"
"""Stands in the bytes of every stop: most other records are not even parsed."""

log = structlog.get_logger()


class StopLookahead:
    """Looks through the backlog of the assigned partitions whenever ``is_wanted`` was set."""

    def __init__(
        self,
        frontier: FrontierIntake,
        router: Router,
        recovery: Recovery,
        *,
        kafka: Kafka,
        topic: str,
    ) -> None:
        self._frontier = frontier
        self._router = router
        self._recovery = recovery
        self._kafka = kafka
        self._topic = topic
        self._seen: dict[int, int] = {}
        self._placed = 0
        self.is_wanted = asyncio.Event()

    async def run(self) -> None:
        """Work until cancelled, which harms nothing: a stop that was not done has its turn."""
        while True:
            await self.is_wanted.wait()
            self.is_wanted.clear()
            try:
                await self._look()
            except Unavailable as error:
                log.warning("stop_ahead", outcome="waiting", error=str(error))
            except Exception:
                log.exception("stop_ahead", outcome="failed")
            await asyncio.sleep(LOOK_EVERY_S)

    async def _look(self) -> None:
        if self._placed != self._recovery.placed:
            self._placed, self._seen = self._recovery.placed, {}
        ours = {
            partition: max(reached, self._seen.get(partition, 0))
            for partition, (_, reached) in self._recovery.reached().items()
        }
        ends = await end_offsets(self._kafka, self._topic)
        if all(offset >= ends.get(partition, 0) for partition, offset in ours.items()):
            return
        begin = {partition: min(ours.get(partition, end), end) for partition, end in ends.items()}
        async for record in read_topic(self._kafka, self._topic, offsets=begin, follow=False):
            if record.partition in ours:
                await self._consider(record)

    async def _consider(self, record: Record) -> None:
        if _TRACE in (record.value or b"") and (stop := await self._stop_in(record)):
            topic_id, _ = self._recovery.reached()[record.partition]
            batch = Batch(topic_id, record.partition, record.offset, record.offset + 1, [record])
            await self._recovery.note_steering(batch, [stop])
            await self._frontier.stop_ahead(topic_id, record.partition, stop)
            log.info("stop_ahead", partition=record.partition, offset=record.offset)
        self._seen[record.partition] = record.offset + 1

    async def _stop_in(self, record: Record) -> Command | None:
        """Return the stop in a record; None for other records, or if it has taken effect."""
        if self._recovery.is_past(record.partition, record.offset):
            return None
        try:
            handler, request = self._router.route(record.value)
        except (InvalidRequest, InvalidUrl):
            return None
        if not isinstance(handler, ActionHandler) or request.name != "stop":
            return None
        return await handler.handle(request, record)
