"""Links of documents: which pages are read, and what becomes of those that cannot be."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from crawling.links import documents
from crawling.links.documents import DocumentReader
from crawling.page.page import DocumentLinks, Page
from crawlstream.errors import MissingExtra
from crawlstream.model.crawl import Entry, Profile
from crawlstream_extract.workers.job import WorkerLimits
from support.crawler.leases import lease
from support.hostile.documents import bomb, pdf

PDF = "application/pdf"
URL = "http://127.0.0.7/a.pdf"
LIMITS = WorkerLimits(workers=1, timeout_s=30.0, memory_mb=256)
UNREAD = DocumentLinks([], Counter({"document_unread": 1}))


@pytest.fixture
async def reader() -> AsyncIterator[DocumentReader]:
    """A reader with a worker that takes less memory than usual."""
    made = DocumentReader(LIMITS)
    yield made
    await made.close()


async def read(reader: DocumentReader, body: bytes, *, status: int = 200, depth: int = 0) -> Page:
    """Return a page after its links were read."""
    held = lease(entry=Entry(url=URL, depth=depth), profile=Profile(maxdepth=1))
    page = Page(held, "id", status=status)
    await reader.read(page, PDF, URL, body)
    return page


async def test_documents_that_no_crawl_follows_cost_nothing(reader: DocumentReader) -> None:
    """Starts no worker for pages at the last level, errors, and other bodies."""
    whole = pdf("a", links=["/b"])
    assert (await read(reader, whole, depth=1)).document is None
    assert (await read(reader, whole, status=404)).document is None
    page = Page(lease(profile=Profile(maxdepth=1)), "id", status=200)
    await reader.read(page, "text/html", URL, b"<html>")
    assert page.document is None
    assert reader._opening is None


async def test_documents_are_read_one_after_the_other(reader: DocumentReader) -> None:
    """Counts one that needs too much memory, charges its time, and reads the others."""
    whole = pdf("a", links=["/b"])
    bodies = [whole, bomb(1_000_000), whole]
    pages = await asyncio.gather(*(read(reader, body) for body in bodies))
    found = [page.document for page in pages]
    good = DocumentLinks(["http://127.0.0.7/b"], Counter())
    assert found == [good, UNREAD, good]
    assert pages[1].cpu_s == LIMITS.timeout_s
    assert 0 < pages[0].cpu_s < LIMITS.timeout_s


async def test_large_documents_and_missing_links_are_counted(
    reader: DocumentReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads no document beyond the limit of its size; counts one whose links are incomplete."""
    links = [f"/{number}" for number in range(5_001)]
    cut = (await read(reader, pdf("a", links=links))).document
    assert cut is not None
    assert (len(cut.urls), cut.refused) == (5_000, Counter({"document_cut": 1}))
    monkeypatch.setattr(documents, "MOST_BYTES", 10)
    large = (await read(reader, pdf("a"))).document
    assert large is not None
    assert (list(large.urls), large.refused) == ([], UNREAD.refused)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raises an error that says how to install it."""
    monkeypatch.setattr(documents, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match="CRAWLSTREAM_DOCUMENTS=links needs pypdfium2"):
        DocumentReader()
