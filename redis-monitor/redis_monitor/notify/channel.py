"""Channel of notices: of events as the topic has them, and of problems as they come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from typing import Protocol

import structlog

from crawlstream.bus.connect import Kafka
from crawlstream.bus.factory import make_source
from crawlstream.bus.history import partition_offsets
from crawlstream.bus.protocols import Source
from crawlstream.bus.records import Batch, OutOfRange
from crawlstream.errors import CrawlstreamError
from crawlstream.retry import Backoff
from crawlstream.tasks import beside
from redis_monitor.metrics import NOTICES
from redis_monitor.notify.notice import Notice
from redis_monitor.notify.sentences import notices_of

KEPT_S = 24 * 3600
"""How long a notice is tried again."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 300.0
_MOST_PROBLEMS = 100
MOST_REFUSALS = 4
"""Attempts at a notice that is refused for good, or that no message can be made of."""

log = structlog.get_logger()


class NotDelivered(CrawlstreamError):
    """The receiver did not take a notice; it is worth another attempt."""


class NotAccepted(NotDelivered):
    """The receiver refuses this notice for good; others may be taken."""


class Transport(Protocol):
    """Sender of notices."""

    name: str

    async def send(self, notice: Notice) -> None:
        """Return when it is there; else NotDelivered, or NotAccepted if no attempt will help."""


class Channel:
    """Sends everything by one transport."""

    def __init__(
        self,
        transport: Transport,
        kafka: Kafka,
        topic: str,
        *,
        group: str,
        cluster: str,
        about: Collection[str],
    ) -> None:
        self._transport = transport
        self._kafka = kafka
        self._topic = topic
        self._group = f"{group}-notify-{transport.name}"
        self._cluster = cluster
        self._about = about
        self._problems: asyncio.Queue[Notice] = asyncio.Queue(_MOST_PROBLEMS)
        self._source: Source = make_source(
            kafka, topic, group=self._group, locate=self._locate, on_out_of_range=_oldest
        )

    def notify(self, notice: Notice) -> None:
        """Send a problem's notice soon; the newest is left out where too many wait."""
        if self._problems.full():
            self._count("dropped", notice)
        else:
            self._problems.put_nowait(notice)

    async def run(self) -> None:
        """Send until cancelled."""
        async with self._source, beside(self._send_problems()):
            while True:
                for batch in await self._source.poll(1.0):
                    await self._send_events(batch)

    async def _send_events(self, batch: Batch) -> None:
        for record in batch.records:
            found = list(notices_of(record.value or b"", self._about, self._cluster))
            for notice in found:
                await self._deliver(notice)
            if found:
                await self._source.commit({batch.partition: record.offset + 1})
        await self._source.commit({batch.partition: batch.next})

    async def _send_problems(self) -> None:
        while True:
            await self._deliver(await self._problems.get())

    async def _deliver(self, notice: Notice) -> None:
        """Send until it is taken or too old; drop it after few refusals: others wait behind it."""
        backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        refusals = 0
        while True:
            try:
                await self._transport.send(notice)
            except NotDelivered as error:
                why = str(error)
                refusals += isinstance(error, NotAccepted)
            except Exception as error:  # noqa: BLE001  the next notices are to come, too
                why = repr(error)
                refusals += 1
            else:
                self._count("sent", notice)
                return
            if refusals >= MOST_REFUSALS or time.time() > notice.at + KEPT_S:
                self._count("dropped", notice, error=why)
                return
            self._count("failed", notice, error=why)
            await asyncio.sleep(next(backoff))

    def _count(self, outcome: str, notice: Notice, **more: str) -> None:
        NOTICES.labels(self._transport.name, outcome).inc()
        told = {"channel": self._transport.name, "id": notice.id, "notice": notice.event, **more}
        if outcome == "sent":
            log.info("notify", outcome=outcome, **told)
        else:
            log.warning("notify", outcome=outcome, **told)

    async def _locate(self, _topic_id: str, partition: int) -> int | None:
        """Return the offset behind the notices sent; a new channel begins at the end."""
        known = (await partition_offsets(self._kafka, self._topic, group=self._group))[partition]
        if known.committed is not None:
            return known.committed
        await self._source.commit({partition: known.end})
        return known.end


async def _oldest(where: OutOfRange) -> int:
    """Return the oldest offset if Kafka does not have the position: the rest is reported."""
    return where.log_start
