"""Records of concurrent requests, sent to Kafka as one list: one wake-up for all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from crawlstream.bus.records import NotAcknowledged, Out, RecordTooLarge
from crawlstream.errors import CrawlstreamError, KafkaUnavailable

MAX_RECORDS = 500
"""Maximum records of one list, unless a single request has more."""

Send = Callable[[Sequence[Out]], Awaitable[object]]
_Waiting = tuple[Sequence[Out], asyncio.Future[None]]


class ListProducer:
    """Sends one list at a time; records that arrive meanwhile form the next list.

    ``send`` is a sink's. Each request gets the verdict on its own records only.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_failed = False
        """True if Kafka has not taken a list since this was set to False."""
        self._waiting: list[_Waiting] = []
        self._sending: asyncio.Task[None] | None = None

    async def feed(self, records: Sequence[Out]) -> None:
        """Return when Kafka has them; errors as of ``Sink.send``.

        Cancelling does not withdraw records that are being sent.
        """
        verdict: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((records, verdict))
        if self._sending is None:
            self._sending = asyncio.create_task(self._send_all(), name="feed")
        await verdict

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                await self._send_list(self._next_list())
        finally:
            self._sending = None

    def _next_list(self) -> Sequence[_Waiting]:
        """Take the oldest pending requests, as many as fit into one list."""
        length = count = 0
        for records, _ in self._waiting:
            if count and length + len(records) > MAX_RECORDS:
                break
            length += len(records)
            count += 1
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return [(records, verdict) for records, verdict in taken if not verdict.done()]

    async def _send_list(self, waiting: Sequence[_Waiting]) -> None:
        error: Exception | None = None
        try:
            await self._send([record for records, _ in waiting for record in records])
        except CrawlstreamError as raised:
            error = raised
            self.has_failed = self.has_failed or isinstance(raised, KafkaUnavailable)
        for records, verdict in waiting:
            if verdict.done():
                continue
            if (own := _own(error, records)) is None:
                verdict.set_result(None)
            else:
                verdict.set_exception(own)


def _own(error: Exception | None, records: Sequence[Out]) -> Exception | None:
    """Return the error that concerns these records; None if they are in Kafka."""
    if not isinstance(error, NotAcknowledged | RecordTooLarge):
        return error
    named = {id(record) for record in error.records}
    own = [record for record in records if id(record) in named]
    return type(error)(str(error), own) if own else None
