"""Fields that stages make, as columns, as far as they are known before."""

from __future__ import annotations

from collections.abc import Mapping

from crawlstream_extract.metadata import FIELDS as METADATA
from pipeline_service.formats.columns import ColumnType

MADE: Mapping[str, Mapping[str, ColumnType]] = {
    "page": {
        n: ColumnType.JSON if n in ("opengraph", "jsonld") else ColumnType.TEXT for n in METADATA
    },
    "text": {"text": ColumnType.TEXT},
    "markdown": {
        "markdown": ColumnType.TEXT,
        "markdown_engine": ColumnType.TEXT,
        "markdown_truncated": ColumnType.FLAG,
    },
    "document": {
        **dict.fromkeys(("text", "title", "author", "lang"), ColumnType.TEXT),
        "page_count": ColumnType.WHOLE,
        "document_links": ColumnType.TEXTS,
        "document_truncated": ColumnType.FLAG,
        "document_error": ColumnType.TEXT,
    },
    "language": {"language": ColumnType.TEXT, "language_score": ColumnType.NUMBER},
    "minhash": {"minhash": ColumnType.WHOLES},
    "signature": {"signature": ColumnType.TEXT},
}
"""By the kind of the stage."""
