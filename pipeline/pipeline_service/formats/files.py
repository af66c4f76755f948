"""The formats by file extension, and a writer of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any, BinaryIO, Protocol

from crawlstream.errors import MissingExtra
from pipeline_service.formats.columns import COLUMNS, Column


class PageWriter(Protocol):
    """Writes pages to a file that the caller opens and closes."""

    def write(self, value: bytes, row: Any) -> None:
        """Add a row: its record, and the value for its columns (a page: the decoded record)."""

    def close(self) -> None:
        """Write buffered rows and the end of the file."""


@dataclass(frozen=True, slots=True)
class Crawl:
    """Origin of the pages, for formats that can state it."""

    software: str
    user_agent: str = ""
    robots: str = ""


_MODULES: Mapping[str, str] = MappingProxyType(
    {
        "jsonl": "jsonl:Plain",
        "jsonl.gz": "jsonl:Gzip",
        "jsonl.zst": "jsonl:Zstd",
        "warc.gz": "warc:Warc",
        "parquet": "parquet:Parquet",
        "wacz": "wacz:Wacz",
    }
)
FORMATS = tuple(_MODULES)
"""Formats by their file extension, without the dot."""
SEGMENT_FORMATS = tuple(name for name in FORMATS if name != "wacz")
"""Formats of files that are parts of a store; a WACZ is a whole crawl."""


def format_of(name: str) -> str | None:
    """Return the format of a file by its name; None if it is unknown."""
    fitting = (each for each in FORMATS if name.lower().endswith(f".{each}"))
    return next(fitting, None)


def make_writer(
    which: str, file: BinaryIO, crawl: Crawl, columns: Sequence[Column] = COLUMNS, **options: Any
) -> PageWriter:
    """Return a writer of a format; raise MissingExtra as `load_format` does.

    ``columns`` are for formats that have columns. WARC and WACZ only take pages. ``options`` are
    those of the format.
    """
    writer: PageWriter = load_format(which)(file, crawl, columns, **options)
    return writer


def load_format(which: str) -> Any:
    """Return the class of its writers; raise MissingExtra if its library is not installed."""
    module, _, name = _MODULES[which].partition(":")
    try:
        found = import_module(f"pipeline_service.formats.{module}")
    except ImportError as error:
        raise MissingExtra(f"the format {which}", error.name, "pipeline") from error
    return getattr(found, name)
