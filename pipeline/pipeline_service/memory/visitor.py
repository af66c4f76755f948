"""Feeds the due pages of a memory as seeds: every fetch goes through the frontier."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from functools import partial

import structlog

from crawlstream.boot.failpoints import failpoint
from crawlstream.bus.protocols import Sink
from crawlstream.bus.records import Out
from crawlstream.errors import CrawlstreamError
from crawlstream.keys import Topics
from crawlstream.wire.requests import key_of_fields
from pipeline_service.memory.sql.visits import VisitClaim, VisitStore
from pipeline_service.metrics import VISITS_FED, note_course
from pipeline_service.sinks.store_calls import StoreCalls
from pipeline_service.spec.config import Pipeline
from pipeline_service.spec.memory import Visits
from pipeline_service.spec.visit_requests import encode_visits

_AGAIN_S = 5.0

log = structlog.get_logger()


class Visitor:
    """The visits of one pipeline; any number of processes may have one each."""

    def __init__(
        self, pipeline: Pipeline, store: VisitStore, sink: Sink, *, topics: Topics
    ) -> None:
        self._pipeline = pipeline
        self._visits = pipeline.visits or Visits()
        self._store = store
        self._calls = StoreCalls(store)
        self._sink = sink
        self._incoming = topics.incoming
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"

    async def run(self) -> None:
        """Feed due pages permanently; while the database is unavailable, retry."""
        try:
            while True:
                try:
                    await self._step()
                    await asyncio.sleep(self._visits.look_every_s)
                except CrawlstreamError as error:
                    log.warning("visit", outcome="waiting", error=str(error))
                    await asyncio.sleep(_AGAIN_S)
        finally:
            await self._calls.call(self._store.close)

    async def _step(self) -> None:
        while (
            claim := await self._calls.call(partial(self._store.claim, self._owner))
        ) is not None:
            failpoint("before_visits")
            await self._sink.send(self._records(claim))
            failpoint("after_visits")
            await self._calls.call(partial(self._store.fed, claim))
            VISITS_FED.labels(self._pipeline.name).inc(len(claim.visits))
            log.info("visit", pipeline=self._pipeline.name, pages=len(claim.visits))
            if claim.is_last:
                break
        course = await self._calls.call(self._store.course)
        note_course(
            self._pipeline.name,
            due=course.due,
            in_flight=course.in_flight,
            late_s=course.late_s,
            fresh=course.fresh,
        )

    def _records(self, claim: VisitClaim) -> list[Out]:
        values = encode_visits(claim.crawl, claim.visits)
        return [
            Out(
                self._incoming,
                value,
                key_of_fields({"appid": visit.appid, "crawlid": claim.crawl.crawlid}),
            )
            for visit, value in zip(claim.visits, values, strict=True)
        ]
