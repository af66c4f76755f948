"""Formats in which ``crawlstream get`` shows a page."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from crawlstream.errors import CrawlstreamError
from crawlstream.model.delivered import Delivered
from crawlstream_extract.extract import Extracted, ExtractRequest
from crawlstream_extract.work import LIMITS, extraction, request_bytes
from crawlstream_extract.workers.queue import WorkerQueue

_MOST_CHARS = 2_000_000
"""Characters of a text; a person reads less, and a program that needs more takes the body."""


class Format(StrEnum):
    """Forms in which a page is shown."""

    MARKDOWN = "markdown"
    TEXT = "text"
    HTML = "html"
    LINKS = "links"
    JSON = "json"


async def shown(how: Format, page: Delivered, record: bytes) -> bytes:
    """Return a page in a format, as bytes for a file; text is UTF-8.

    Raise CrawlstreamError if it cannot be made: of an image, or within 10 s.
    """
    if how is Format.JSON:
        return record + b"\n"
    if how is Format.HTML or not page.body:
        return page.body
    found = await _extracted(how, page)
    made = found.formats.get(how)
    if made is None:
        why = ", ".join(found.problems) or f"{how}: there is none"
        raise CrawlstreamError(f"{page.response_url} has no {how} ({why}): --html shows its body")
    text = made if how is not Format.LINKS else "\n".join(link["url"] for link in made)
    return f"{text}\n".encode() if text else b""


async def _extracted(how: Format, page: Delivered) -> Extracted:
    """Extract in a worker process: a hostile page takes no more of this machine than it may."""
    request = ExtractRequest(
        body=page.body,
        encoding=page.encoding,
        mime=page.mime,
        url=page.response_url,
        formats=[how.value],
        max_chars=_MOST_CHARS,
    )
    workers = WorkerQueue(
        extraction(), replace(LIMITS, workers=1), most_waiting=1, died=lambda _: None
    )
    await workers.open()
    try:
        return await workers.run(request_bytes(request))
    finally:
        await workers.close()
