"""Links of PDFs and office documents, for operators who have them followed.

A document of 20 KB may need gigabytes to be read, so a worker process reads it: one at a time, with
limits of time and memory. What it costs is charged to the document's domain, like other CPU time.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from importlib.util import find_spec
from typing import NamedTuple

import structlog

from crawling.links.sitemap_files import follows_links
from crawling.page.page import DocumentLinks, Page
from crawlstream.errors import MissingExtra
from crawlstream.tasks import end
from crawlstream_extract.documents.kinds import kind_of
from crawlstream_extract.workers.frames import packed, unpack
from crawlstream_extract.workers.job import Job, WorkerLimits, WorkerLost
from crawlstream_extract.workers.queue import WorkerQueue, WorkersBusy

MOST_BYTES = 16 << 20
"""Size of a document whose links are read."""
LIMITS = WorkerLimits(workers=1, timeout_s=5.0, memory_mb=512)
_WAIT_S = 60.0
"""Seconds that a document waits for the worker."""
CUT, UNREAD = "document_cut", "document_unread"

log = structlog.get_logger()


class DocumentAnswer(NamedTuple):
    """Answer of the worker."""

    links: list[str]
    is_truncated: bool
    error: str | None
    cpu_s: float


class DocumentReader:
    """Reads the links of documents; its worker starts with the first one."""

    def __init__(self, limits: WorkerLimits = LIMITS) -> None:
        """MissingExtra: a package is not installed."""
        if find_spec("pypdfium2") is None:
            raise MissingExtra("CRAWLSTREAM_DOCUMENTS=links", "pypdfium2", "extract")
        job = Job(
            target="crawlstream_extract.documents.links:DocumentLinksWork",
            argument=None,
            decode=_answer,
            lost=lambda kind, _: DocumentAnswer([], False, kind, limits.timeout_s),  # noqa: FBT003
        )
        self._queue = WorkerQueue(job, limits, most_waiting=1, died=_note_death)
        self._opening: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()

    async def read(self, page: Page, mime: str, url: str, body: bytes) -> None:
        """Note the links of a page that is a document, if its crawl follows them."""
        kind = kind_of(mime, body, url)
        lease = page.lease
        is_above = lease.entry.depth < lease.profile.maxdepth
        if kind is None or not is_above or not follows_links(page) or page.status // 100 != 2:
            return
        if len(body) > MOST_BYTES:
            page.document = DocumentLinks((), Counter({UNREAD: 1}))
            return
        found = await self._read(packed([kind, url, body]))
        page.cpu_s += found.cpu_s
        refused = Counter[str]()
        if found.error:
            refused[UNREAD] = 1
            log.warning("parse", outcome=UNREAD, url=url, why=found.error)
        elif found.is_truncated:
            refused[CUT] = 1
            log.warning("parse", outcome=CUT, url=url)
        page.document = DocumentLinks(found.links, refused)

    async def close(self) -> None:
        """End the worker."""
        if self._opening is not None:
            await end({self._opening})
            await self._queue.close()

    async def _read(self, value: bytes) -> DocumentAnswer:
        try:
            async with asyncio.timeout(_WAIT_S), self._turn:
                if self._opening is None or (self._opening.done() and self._opening.exception()):
                    self._opening = asyncio.create_task(self._queue.open(), name="documents")
                await asyncio.shield(self._opening)
                return await self._queue.run(value)
        except (TimeoutError, WorkersBusy, WorkerLost) as error:
            return DocumentAnswer([], False, str(error) or "busy", 0.0)  # noqa: FBT003


def _answer(made: bytes) -> DocumentAnswer:
    links, is_truncated, error, cpu_s = unpack(made)
    return DocumentAnswer(list(links), bool(is_truncated), error, float(cpu_s))


def _note_death(lost: WorkerLost) -> None:
    log.warning("parse", outcome="worker_lost", error=str(lost))
