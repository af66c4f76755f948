"""Make a file of few rows in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import BytesIO
from typing import Any

from crawlstream.formats.columns import COLUMNS, Column
from crawlstream.formats.files import Crawl, make_writer


def in_memory(
    which: str,
    crawl: Crawl,
    rows: Iterable[tuple[bytes, Any]],
    *,
    columns: Sequence[Column] = COLUMNS,
) -> bytes:
    """Return the content of a file with rows: each is a record and the value for its columns."""
    file = BytesIO()
    writer = make_writer(which, file, crawl, columns)
    for value, row in rows:
        writer.write(value, row)
    writer.close()
    return file.getvalue()
