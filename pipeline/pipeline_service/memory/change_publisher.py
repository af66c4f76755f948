"""Publishes the changes that a memory has found, as events `page_changed`."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import time
from collections.abc import Sequence
from functools import partial

import structlog

from crawlstream.boot.failpoints import failpoint
from crawlstream.bus.protocols import Sink
from crawlstream.bus.records import Out, RecordTooLarge
from crawlstream.errors import CrawlstreamError
from crawlstream.keys import Topics
from pipeline_service.memory.sql.change_store import ChangeStore
from pipeline_service.metrics import CHANGES_PUBLISHED, CHANGES_STALLED_SECONDS
from pipeline_service.sinks.store_calls import StoreCalls

_LOOK_EVERY_S, _AGAIN_S = 1.0, 5.0

log = structlog.get_logger()


class ChangePublisher:
    """The changes of one pipeline; any number of processes may have one each."""

    def __init__(self, pipeline: str, store: ChangeStore, sink: Sink, *, topics: Topics) -> None:
        self._pipeline = pipeline
        self._store = store
        self._calls = StoreCalls(store)
        self._sink = sink
        self._topic = topics.events
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._well_at = time.monotonic()
        """When changes were published last, or none waited."""

    async def run(self) -> None:
        """Publish changes permanently; while database or Kafka are unavailable, retry."""
        try:
            while True:
                try:
                    await self.drain()
                    await asyncio.sleep(_LOOK_EVERY_S)
                except CrawlstreamError as error:
                    self._note_stall()
                    log.warning("change", outcome="waiting", error=str(error))
                    await asyncio.sleep(_AGAIN_S)
        finally:
            await self._calls.call(self._store.close)

    async def drain(self) -> None:
        """Return when no change waits any more. SinkUnavailable, KafkaUnavailable."""
        claim = partial(self._store.claim, self._owner)
        while (changes := await self._calls.call(claim)) is not None:
            if not changes:
                self._note_stall()
                await asyncio.sleep(_LOOK_EVERY_S)
                continue
            failpoint("before_changes")
            await self._send([Out(self._topic, v.encode(), k.encode()) for k, v in changes])
            failpoint("after_changes")
            await self._calls.call(partial(self._store.published, [key for key, _ in changes]))
            self._note_well()
            CHANGES_PUBLISHED.labels(self._pipeline).inc(len(changes))
            log.info("change", pipeline=self._pipeline, pages=len(changes))
        self._note_well()

    async def _send(self, records: Sequence[Out]) -> None:
        try:
            await self._sink.send(records)
        except RecordTooLarge as error:
            # All others are stored. Such a record would hold up those behind it permanently.
            keys = [(each.key or b"").decode() for each in error.records]
            log.warning("change", outcome="too_large", keys=keys[:10], records=len(keys))

    def _note_well(self) -> None:
        self._well_at = time.monotonic()
        self._note_stall()

    def _note_stall(self) -> None:
        CHANGES_STALLED_SECONDS.labels(self._pipeline).set(time.monotonic() - self._well_at)
