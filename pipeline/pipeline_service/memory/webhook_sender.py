"""Sends the changes that a memory has found to a webhook, as CloudEvents in signed posts."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Sequence
from functools import partial

import structlog

from crawlstream.boot.failpoints import failpoint
from crawlstream.boot.signed_post import PostFailed, SignedPost
from crawlstream.bus.protocols import Sink
from crawlstream.errors import CrawlstreamError
from crawlstream.keys import Topics
from crawlstream.retry import Backoff
from crawlstream.wire.cloud_events import structured
from pipeline_service.memory.sql.webhook_queue import WaitingChange
from pipeline_service.memory.sql.webhook_store import WebhookStore
from pipeline_service.metrics import WEBHOOK_CHANGES, WEBHOOK_OLDEST_SECONDS
from pipeline_service.records.undelivered import send_undelivered, unsent_change
from pipeline_service.sinks.store_calls import StoreCalls
from pipeline_service.spec.config import Pipeline

AT_ONCE = 8
"""Posts at a time, of different pages; one while the receiver fails."""
_LOOK_EVERY_S, _AGAIN_S = 1.0, 5.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 300.0
"""Pauses after attempts, while the receiver answers none with 2xx."""

log = structlog.get_logger()


class WebhookSender:
    """The webhook of one pipeline; any number of processes may have one each.

    A change is sent at least once. Repetitions have equal ids and bodies, and changes of one page
    are sent in their order.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        store: WebhookStore,
        post: SignedPost,
        *,
        sink: Sink,
        topics: Topics,
    ) -> None:
        self._pipeline = pipeline
        self._store = store
        self._calls = StoreCalls(store)
        self._post = post
        self._sink = sink
        self._topics = topics
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        self._is_failing = False

    async def run(self) -> None:
        """Send changes permanently; while database or Kafka are unavailable, retry."""
        try:
            while True:
                try:
                    is_done = await self.step()
                    await asyncio.sleep(self._pause_s(is_done=is_done))
                except CrawlstreamError as error:
                    log.warning("webhook", outcome="waiting", error=str(error))
                    await asyncio.sleep(_AGAIN_S)
        finally:
            await self._calls.call(self._store.close)

    async def drain(self) -> None:
        """Send what is due, until nothing is, or the receiver fails."""
        while not await self.step() and not self._is_failing:
            pass

    async def step(self) -> bool:
        """Send some changes; True if nothing is left to do now.

        SinkUnavailable, KafkaUnavailable.
        """
        most = 1 if self._is_failing else AT_ONCE
        claim = await self._calls.call(partial(self._store.claim, self._owner, most))
        WEBHOOK_OLDEST_SECONDS.labels(self._pipeline.name).set(claim.oldest_s)
        if claim.late:
            await self._give_up(claim.late)
        elif claim.due:
            await self._send(claim.due)
        return not (claim.late or claim.due)

    def _pause_s(self, *, is_done: bool) -> float:
        if self._is_failing and not is_done:
            return next(self._backoff)
        return _LOOK_EVERY_S if is_done else 0.0

    async def _send(self, changes: Sequence[WaitingChange]) -> None:
        failpoint("before_webhook")
        errors = await asyncio.gather(*map(self._send_one, changes))
        failpoint("after_webhook")
        sent = [change.key for change, error in zip(changes, errors, strict=True) if error is None]
        failed = {
            change.key: (change.tries, str(error))
            for change, error in zip(changes, errors, strict=True)
            if error is not None
        }
        await self._calls.call(partial(self._store.note, sent, failed))
        self._count("sent", len(sent))
        self._count("failed", len(failed))
        # A receiver that refuses a change for good is there: others may be taken.
        self._is_failing = not any(error is None or error.is_final for error in errors)
        if not self._is_failing:
            self._backoff.reset()
        for why in sorted({why for _, why in failed.values()}):
            log.warning("webhook", outcome="failed", pipeline=self._pipeline.name, error=why)

    async def _send_one(self, change: WaitingChange) -> PostFailed | None:
        body = structured(self._topics.prefix, change.key, change.value.encode())
        try:
            await self._post.send(change.key, body)
        except PostFailed as error:
            return error
        return None

    async def _give_up(self, changes: Sequence[WaitingChange]) -> None:
        outs = [
            unsent_change(self._pipeline, self._topics.undelivered, each.value, each.why)
            for each in changes
        ]
        await send_undelivered(self._sink, outs)
        failpoint("after_given_up")
        await self._calls.call(partial(self._store.note, [each.key for each in changes], {}))
        self._count("undelivered", len(changes))
        log.error("webhook", outcome="given_up", pipeline=self._pipeline.name, pages=len(changes))

    def _count(self, outcome: str, number: int) -> None:
        WEBHOOK_CHANGES.labels(self._pipeline.name, outcome).inc(number)
