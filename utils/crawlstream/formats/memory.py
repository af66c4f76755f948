"""A file of few pages, made in memory."""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO

from crawlstream.formats.files import Crawl, make_writer
from crawlstream.model.delivered import Delivered


def in_memory(which: str, crawl: Crawl, pages: Iterable[tuple[bytes, Delivered]]) -> bytes:
    """The content of a file with these pages: the record of each, and the same decoded."""
    file = BytesIO()
    writer = make_writer(which, file, crawl)
    for value, page in pages:
        writer.write(value, page)
    writer.close()
    return file.getvalue()
