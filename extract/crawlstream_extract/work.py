"""Extraction in worker processes: ``WorkerQueue(extraction(), LIMITS, …)``."""

from __future__ import annotations

from typing import Any

from crawlstream_extract.extract import Extracted, ExtractRequest, extract
from crawlstream_extract.workers.frames import packed, unpack
from crawlstream_extract.workers.job import Job, WorkerLimits

LIMITS = WorkerLimits(workers=2, timeout_s=10.0, memory_mb=512)
"""Limits of a process that extracts while its callers wait."""
MOST_WAITING = 32
"""Pages that wait for one of its workers."""


def request_bytes(request: ExtractRequest) -> bytes:
    """Return a request as a worker gets it."""
    rest = [request.encoding, request.mime, request.url, list(request.formats)]
    return packed([request.body, *rest, request.main, request.max_chars])


def extraction() -> Job[Extracted]:
    """Return the job: values are ``request_bytes``; a lost worker is a problem of the page."""
    return Job(
        target="crawlstream_extract.work:ExtractWork",
        argument=None,
        decode=_extracted,
        lost=_lost,
    )


class ExtractWork:
    """Extraction in a worker."""

    told = None

    def __init__(self, _: Any) -> None:
        pass

    def run(self, value: bytes) -> bytes:
        """Return the formats of a page."""
        body, encoding, mime, url, formats, main, max_chars = unpack(value)
        request = ExtractRequest(
            body=body,
            encoding=encoding,
            mime=mime,
            url=url,
            formats=formats,
            main=main,
            max_chars=max_chars,
        )
        found = extract(request)
        return packed([found.formats, found.truncated, found.problems])


def _extracted(made: bytes) -> Extracted:
    formats, truncated, problems = unpack(made)
    return Extracted(formats=formats, truncated=truncated, problems=tuple(problems))


def _lost(kind: str, _: str) -> Extracted:
    return Extracted(problems=(f"extract: {kind}",))
