"""The formats of pages, made in worker processes."""

from __future__ import annotations

import asyncio

import structlog

from crawlstream.errors import ConfigError
from crawlstream_extract.extract import Extracted, ExtractRequest
from crawlstream_extract.work import LIMITS, MOST_WAITING, extraction, request_bytes
from crawlstream_extract.workers.job import WorkerLost
from crawlstream_extract.workers.queue import WorkerQueue, WorkersBusy
from rest_service.http.envelope import RequestRefused
from rest_service.metrics import EXTRACT_WORKERS_LOST

log = structlog.get_logger()


class Extraction:
    """Worker processes: one, and a second one when pages wait for it."""

    def __init__(self) -> None:
        self._queue: WorkerQueue[Extracted] | None = None
        self._opening: asyncio.Task[WorkerQueue[Extracted]] | None = None

    def warm(self) -> None:
        """Start the first worker, unless it runs: it is ready when the page comes."""
        if self._opening is None:
            self._opening = asyncio.create_task(self._open(), name="extraction")
            self._opening.add_done_callback(self._opened)

    async def run(self, request: ExtractRequest) -> Extracted:
        """Return the formats of a page, or its problems; RequestRefused (503) if too many wait."""
        self.warm()
        assert self._opening is not None
        try:
            queue = await asyncio.shield(self._opening)
            return await queue.run(request_bytes(request))
        except WorkersBusy as error:
            raise RequestRefused(503, f"Too many pages: {error}.", code="busy") from error
        except (ConfigError, WorkerLost) as error:
            return Extracted(problems=(f"extract: {error}",))

    async def close(self) -> None:
        """End the workers."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        if self._queue is not None:
            await self._queue.close()

    async def _open(self) -> WorkerQueue[Extracted]:
        queue = WorkerQueue(extraction(), LIMITS, most_waiting=MOST_WAITING, died=_count_death)
        await queue.open()
        self._queue = queue
        return queue

    def _opened(self, opening: asyncio.Task[WorkerQueue[Extracted]]) -> None:
        """Let the next scrape try again if they could not be started."""
        if opening.cancelled() or opening.exception() is None:
            return
        log.warning("extract", outcome="worker_not_started", error=str(opening.exception()))
        self._opening = None


def _count_death(lost: WorkerLost) -> None:
    log.warning("extract", outcome="worker_lost", error=str(lost))
    EXTRACT_WORKERS_LOST.labels(lost.kind).inc()
