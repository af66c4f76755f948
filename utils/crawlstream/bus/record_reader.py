"""Single records by their places: one consumer for all readers, which seeks to each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafka import KafkaConsumer
from kafka.errors import KafkaError, RetriableError
from kafka.structs import TopicPartition

from crawlstream.bus.access.refusals import refusal_of
from crawlstream.bus.connect import Kafka, open_client
from crawlstream.bus.records import Record
from crawlstream.bus.unpack import read_quickly
from crawlstream.errors import CrawlstreamError, KafkaUnavailable

PATIENCE_S = 10.0
"""Seconds after which a record that Kafka does not return is reported as unavailable."""
LOOKED_BACK = 64
"""Offsets before the end of a partition in which a record without a known offset is looked for."""
_POLL_MS = 25
_END_CHECKED_S = 1.0
_FETCH_WAIT_MS = 5
"""Milliseconds that a broker waits for records: others of its partitions wait meanwhile."""
_PARTITION_BYTES = 64 * 1024
"""Bytes of one fetch from a partition; a larger batch still arrives, alone."""
_POLL_BYTES = 32 * 1024 * 1024
_CLOSE_TIMEOUT_MS = 1_000


class WantedRecord(NamedTuple):
    """Place of a record."""

    topic: str
    partition: int
    offset: int | None
    """None: it is the latest with the key, among the last ones of its partition."""
    key: bytes | None = None
    """Key that it must have; None: any."""


@dataclass(frozen=True, slots=True)
class _Request:
    wanted: WantedRecord
    found: asyncio.Future[Record | None]
    until: float = field(default_factory=lambda: time.monotonic() + PATIENCE_S)


class RecordReader:
    """Reads single records on a thread of its own; it opens its consumer when it is first used."""

    def __init__(self, kafka: Kafka) -> None:
        self._seeker = _Seeker(kafka.named("crawlstream-places"))
        self._thread = ThreadPoolExecutor(1, "kafka-places")
        self._requests: list[_Request] = []
        self._serving: asyncio.Task[None] | None = None
        self._is_warm = False

    def warm(self, topic: str) -> None:
        """Connect, and learn where the partitions of a topic are, before the first record."""
        if not self._is_warm:
            self._is_warm = True
            self._thread.submit(self._seeker.warm, topic)

    async def read(self, wanted: WantedRecord) -> Record | None:
        """Return a record; None if Kafka does not have it (any more).

        Raises KafkaUnavailable, after PATIENCE_S at the latest.
        """
        request = _Request(wanted, asyncio.get_running_loop().create_future())
        self._requests.append(request)
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve(), name="places")
        return await request.found

    async def stop(self) -> None:
        """Close the consumer; readers get KafkaUnavailable."""
        self._fail(self._requests, KafkaUnavailable("the process is stopping"))
        if self._serving is not None:
            await self._serving
        self._thread.submit(self._seeker.close)
        self._thread.shutdown(wait=False)

    async def _serve(self) -> None:
        """Look for what is wanted until nothing is."""
        loop = asyncio.get_running_loop()
        while self._requests:
            wanted = {request.wanted for request in self._requests}
            try:
                found = await loop.run_in_executor(self._thread, self._seeker.look, wanted)
            except CrawlstreamError as error:
                self._fail([one for one in self._requests if one.wanted in wanted], error)
            else:
                self._pass_on(found)
            late = [one for one in self._requests if one.until <= time.monotonic()]
            self._fail(late, KafkaUnavailable("Kafka does not return a record"))
            self._requests = [one for one in self._requests if not one.found.done()]
        self._serving = None

    def _pass_on(self, found: Mapping[WantedRecord, Record | None]) -> None:
        for request in self._requests:
            if request.wanted in found and not request.found.done():
                request.found.set_result(found[request.wanted])

    @staticmethod
    def _fail(requests: Iterable[_Request], error: CrawlstreamError) -> None:
        for request in requests:
            if not request.found.done():
                request.found.set_exception(error)


@dataclass(slots=True)
class _Span:
    """Offsets among which a record is."""

    low: int
    high: int
    check_at: float = field(default_factory=lambda: time.monotonic() + _END_CHECKED_S)
    """Time at which to check whether the partition ends before it."""
    latest: Record | None = None


class _Seeker:
    """A consumer that is assigned where something is wanted; blocks, so it lives on a thread."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._consumer: Any = None
        self._spans: dict[WantedRecord, _Span] = {}
        self._sought: dict[TopicPartition, int] = {}

    def warm(self, topic: str) -> None:
        """Open the consumer; what fails here is reported when something is looked for."""
        with suppress(CrawlstreamError, KafkaError):
            self._open()
            at = TopicPartition(topic, 0)
            self._consumer.assign([at])
            self._consumer.end_offsets([at])

    def look(self, wanted: Collection[WantedRecord]) -> Mapping[WantedRecord, Record | None]:
        """Poll once; return the records that were found, and None for those that do not exist."""
        try:
            self._open()
            fresh = {_partition_of(one) for one in wanted if one not in self._spans}
            self._spans = {one: self._spans.get(one) or self._span(one) for one in wanted}
            self._seek(fresh)
            polled = self._consumer.poll(timeout_ms=_POLL_MS)
            found = {**self._missing(), **self._matching(polled)}
        except RetriableError:
            time.sleep(_POLL_MS / 1000)
            return {}
        except KafkaError as error:
            self.close()
            raise refusal_of(error) or KafkaUnavailable(f"cannot read records: {error}") from error
        for one in found:
            # The partition may have another end when the same is wanted again.
            self._spans.pop(one, None)
        return found

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close(autocommit=False, timeout_ms=_CLOSE_TIMEOUT_MS)
        self._consumer, self._spans, self._sought = None, {}, {}

    def _open(self) -> None:
        if self._consumer is not None:
            return
        self._consumer, _ = open_client(
            KafkaConsumer,
            **self._kafka.options(),
            group_id=None,
            auto_offset_reset="earliest",
            allow_auto_create_topics=False,
            fetch_max_wait_ms=_FETCH_WAIT_MS,
            fetch_max_bytes=_POLL_BYTES,
            max_partition_fetch_bytes=_PARTITION_BYTES,
            metrics_enabled=False,
        )
        read_quickly(self._consumer, traces=self._kafka.reads_traces)

    def _span(self, wanted: WantedRecord) -> _Span:
        if wanted.offset is not None:
            return _Span(wanted.offset, wanted.offset + 1)
        at = _partition_of(wanted)
        end = self._consumer.end_offsets([at])[at]
        return _Span(max(0, end - LOOKED_BACK), end)

    def _seek(self, fresh: Collection[TopicPartition]) -> None:
        """Go to the first record that is wanted of each partition; some have new requests."""
        first: dict[TopicPartition, int] = {}
        for wanted, span in self._spans.items():
            at = _partition_of(wanted)
            first[at] = min(first.get(at, span.low), span.low)
        if first.keys() != self._sought.keys():
            self._consumer.assign(list(first))
            self._sought = {}
        for at, offset in first.items():
            is_new = at in fresh or self._sought.get(at) != offset
            if is_new and not self._is_at(at, offset):
                self._consumer.seek(at, offset)
        self._sought = first

    def _is_at(self, at: TopicPartition, offset: int) -> bool:
        """Return whether the next record that comes is the one at an offset."""
        return at in self._sought and bool(self._consumer.position(at, timeout_ms=0) == offset)

    def _matching(self, polled: Mapping[TopicPartition, list[Record]]) -> dict[Any, Record | None]:
        """Return the wanted records among those of a poll."""
        found: dict[Any, Record | None] = {}
        for wanted, span in self._spans.items():
            for record in polled.get(_partition_of(wanted), ()):
                if span.low <= record.offset < span.high and wanted.key in {None, record.key}:
                    span.latest = record
            if span.latest is not None and self._is_past(wanted, span):
                found[wanted] = span.latest
        return found

    def _missing(self) -> dict[Any, Record | None]:
        """Return None for what is behind the present position, or not in the log."""
        return {wanted: None for wanted, span in self._spans.items() if self._is_past(wanted, span)}

    def _is_past(self, wanted: WantedRecord, span: _Span) -> bool:
        """Return whether no further record of a span will come.

        A position before the one that was sought is the log's beginning: the log has lost its end.
        """
        at = _partition_of(wanted)
        position = self._consumer.position(at, timeout_ms=0)
        if position is not None and (position >= span.high or position < self._sought[at]):
            return True
        if time.monotonic() < span.check_at:
            return False
        span.check_at = time.monotonic() + _END_CHECKED_S
        return bool(self._consumer.end_offsets([at])[at] <= span.low)


def _partition_of(wanted: WantedRecord) -> TopicPartition:
    return TopicPartition(wanted.topic, wanted.partition)
