"""Results and failures on their way to Kafka; nothing ends here before Kafka has it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from typing import TypeVar

import structlog

from crawlstream.boot.settings import Settings
from crawlstream.bus.outbound import Outbound
from crawlstream.bus.protocols import Sink
from crawlstream.bus.records import NO_OFFSET, NotAcknowledged, Out, RecordTooLarge
from crawlstream.errors import Unavailable
from crawlstream.model.event import (
    GuardVerdict,
    PageFailed,
    PageReply,
    PagesSkipped,
    PaymentRequired,
    RecordPlace,
)
from crawlstream.model.result import CrawlResult, ResultLimits
from crawlstream.retry import Backoff, until_available
from crawlstream.store.bodies import BodyStore
from crawlstream.tasks import together
from crawlstream.wire import events, replies
from crawlstream.wire.results import encode_page

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 5.0
_HURRY_S = 20.0
"""How long a worker that is to end waits for Kafka before it gives its pages back."""
_ROOM_FOR_KEY_AND_HEADERS = 64 * 1024
_SMALLEST_RECORD = 16 * 1024

T = TypeVar("T")

log = structlog.get_logger()


def _is_an_end(error: object) -> bool:
    return not isinstance(error, Exception) or isinstance(error, GivenUp)


class GivenUp(Unavailable):
    """The worker is to end, and Kafka or the body store has not come back; the page stays open."""


class Publisher:
    """Sends records until Kafka has acknowledged them, however long that takes."""

    def __init__(self, sink: Sink, settings: Settings) -> None:
        self._sink = sink
        self._topics = settings.topics
        self._to_apps = settings.kafka_appid_topics
        self._outbound = Outbound(sink, self._topics, per_app=settings.kafka_appid_topics)
        self._limits = ResultLimits(
            max_body_bytes=settings.max_body_bytes,
            max_record_bytes=settings.max_record_bytes - _ROOM_FOR_KEY_AND_HEADERS,
            base64_always=settings.kafka_base_64_encode,
        )
        self._store = BodyStore.at(settings.body_store) if settings.body_store else None
        self._waiting: dict[object, str] = {}
        """The service and what is wrong with it, by each call that waits for it."""
        self._gives_up_at: float | None = None

    @property
    def waits_for(self) -> str:
        """The service that has not taken what it was given, and why: nothing is leased now."""
        return next(iter(self._waiting.values()), "")

    def hurry(self) -> None:
        """The worker is to end: give up on a service that does not come back soon."""
        if self._gives_up_at is None:
            self._gives_up_at = time.monotonic() + _HURRY_S

    async def result(self, result: CrawlResult) -> None:
        """Publish a page. A topic that takes less than it should gets a shorter body.

        A body that has to be cut is in the store, whole, before its record is sent.
        """
        await self._publish(result, self._send)

    async def requisite(self, result: CrawlResult) -> None:
        """Publish a requisite of a page, in the same way, on the topic of requisites."""

        async def send(records: Sequence[Out]) -> Sequence[int]:
            return await self._send([replace(records[0], topic=self._topics.requisites)])

        await self._publish(result, send)

    async def requisites(self, results: Sequence[CrawlResult]) -> Sequence[Exception | None]:
        """Publish requisites together; return why any of them could not be. GivenUp.

        Those that Kafka does not take so are published one by one, in a shorter form.
        """
        records: dict[str, Out] = {}
        for result in results:
            value, is_cut = encode_page(result, self._limits)
            if not (is_cut and self._store):
                records[result.id] = self._record(self._topics.requisites, result, value)
        try:
            await self._send(list(records.values()))
        except RecordTooLarge as error:
            records = {key: one for key, one in records.items() if one not in error.records}
        except GivenUp:
            raise
        except Exception:  # noqa: BLE001  each gets an error of its own below
            records = {}
        left = [result for result in results if result.id not in records]
        told = await asyncio.gather(*map(self.requisite, left), return_exceptions=True)
        errors = {result.id: error for result, error in zip(left, told, strict=True) if error}
        if given_up := next((one for one in errors.values() if _is_an_end(one)), None):
            raise given_up
        return [errors.get(result.id) for result in results]  # type: ignore[misc]

    async def placed(self, result: CrawlResult) -> RecordPlace:
        """Publish a page in the same way; return where Kafka has its record for all clients."""
        return await self._publish(result, self._place)

    async def _publish(
        self, result: CrawlResult, send: Callable[[Sequence[Out]], Awaitable[T]]
    ) -> T:
        limits, result = self._limits, await self._with_ref(result)
        while True:
            value, is_cut = encode_page(result, limits)
            if is_cut and self._store and not result.body_ref:
                result = replace(result, body_ref=await self._keep(self._store, result.body))
                continue
            try:
                return await send(self._records(result, value))
            except RecordTooLarge:
                limits = replace(limits, max_record_bytes=len(value) // 2)
                if limits.max_record_bytes < _SMALLEST_RECORD:
                    raise
                log.warning("publish", outcome="cut", id=result.id, bytes=len(value))

    async def _with_ref(self, result: CrawlResult) -> CrawlResult:
        """Return a result whose screenshot is in the body store, if there is one."""
        if not (self._store and result.screenshot and result.screenshot_body):
            return result
        ref = await self._keep(self._store, result.screenshot_body)
        return replace(result, screenshot={"ref": ref, **result.screenshot}, screenshot_body=None)

    async def reply(self, reply: PageReply) -> None:
        """Publish the reply about a page that its client waits for."""
        await self._place(self._outbound.reply(reply.crawl.appid, replies.page(reply)))

    async def event(self, event: PageFailed | PaymentRequired) -> None:
        """Publish that a page will have no result, or that its site wants to be paid."""
        await self._send([Out(self._topics.events, events.encode(event), event.id.encode())])

    async def skipped(self, event: PagesSkipped) -> None:
        """Publish that pages will not be requested; RecordTooLarge: the topic takes fewer.

        The record does not linger: until these pages end, no other one of their domain may be
        leased where its rule is moderated.
        """
        key = event.pages[0].id.encode()
        await self._place([Out(self._topics.events, events.encode(event), key)])

    async def verdict(self, event: GuardVerdict) -> None:
        """Publish that the waste guard judges a family of URLs otherwise than before."""
        value = events.encode_verdict(event)
        await self._send([Out(self._topics.events, value, event.site.encode())])

    async def links(self, records: Sequence[Out]) -> Sequence[int]:
        """Publish links for other partitions; return the offset of each record (`Sink.send`).

        RecordTooLarge names those that were not written, all others were; GivenUp.
        """
        return await self._send(records)

    async def spill(self, values: Sequence[bytes]) -> Collection[bytes]:
        """Keep links in Kafka that Redis has no room for; answers those that are too large."""
        try:
            await self._send([Out(self._topics.overflow, value) for value in values])
        except RecordTooLarge as error:
            return {record.value for record in error.records}
        return ()

    def _records(self, result: CrawlResult, value: bytes) -> Sequence[Out]:
        records = [self._record(self._topics.crawled, result, value)]
        if self._to_apps and (
            topic := self._topics.for_app(self._topics.crawled, result.crawl.appid)
        ):
            records.append(replace(records[0], topic=topic, optional=True))
        return records

    def _record(self, topic: str, result: CrawlResult, value: bytes) -> Out:
        return Out(topic, value, result.id.encode())

    async def _keep(self, store: BodyStore, body: bytes) -> str:
        return await self.insist("body_store", lambda: store.keep(body))

    async def _send(self, records: Sequence[Out]) -> Sequence[int]:
        left = records

        async def send() -> Sequence[int]:
            nonlocal left
            try:
                return await self._sink.send(left)
            except NotAcknowledged as error:
                left = error.records
                raise

        offsets = await self.insist("kafka", send)
        return offsets if left is records else [NO_OFFSET] * len(records)

    async def _place(self, records: Sequence[Out]) -> RecordPlace:
        """Send a record that does not linger, as others wait for it; return its place.

        The further ones are copies for the client's application, and are sent with it.
        """
        first, *copies = records
        placing = asyncio.ensure_future(self.insist("kafka", lambda: self._sink.place(first)))
        await together([placing, self._send(copies)] if copies else [placing])
        return placing.result()

    async def insist(self, service: str, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try until the service takes it; GivenUp if the worker is to end before."""
        call = object()

        def note(error: Exception, pause_s: float) -> None:
            self._waiting[call] = f"{service}: {error}"
            log.warning(
                "publish", outcome="waiting", service=service, error=str(error), pause_s=pause_s
            )
            if self._must_give_up():
                raise GivenUp(str(error)) from error

        try:
            backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
            return await until_available(attempt, backoff=backoff, on_wait=note)
        finally:
            self._waiting.pop(call, None)

    def _must_give_up(self) -> bool:
        return self._gives_up_at is not None and time.monotonic() > self._gives_up_at
