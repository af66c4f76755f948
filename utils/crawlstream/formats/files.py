"""The formats by the ending of a file's name, and a writer of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any, BinaryIO, Protocol

from crawlstream.errors import ConfigError
from crawlstream.formats.columns import COLUMNS, Column


class Writer(Protocol):
    """Writes pages to a file that somebody else opens and closes."""

    def write(self, value: bytes, row: Any) -> None:
        """Add a row: its record, and what its columns are taken of: of a page, the same decoded."""

    def close(self) -> None:
        """Write what is left, and the file's end."""


@dataclass(frozen=True, slots=True)
class Crawl:
    """What a file says of where its pages come from, where its format has a place for that."""

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
    }
)
FORMATS = tuple(_MODULES)
"""Each is called by the ending of its files' names, without the dot."""


def format_of(name: str) -> str | None:
    """The format of a file by its name, None if it is none of ours."""
    fitting = (each for each in FORMATS if name.lower().endswith(f".{each}"))
    return next(fitting, None)


def make_writer(
    which: str, file: BinaryIO, crawl: Crawl, columns: Sequence[Column] = COLUMNS
) -> Writer:
    """A writer of a format; ConfigError where its library is not installed.

    ``columns`` are those of formats that have any. WARC has pages only.
    """
    module, _, name = _MODULES[which].partition(":")
    try:
        found = import_module(f"crawlstream.formats.{module}")
    except ImportError as error:
        raise ConfigError(
            f"files of the format {which} need {error.name}, which is not installed: install"
            " crawlstream with the extra [pipeline]"
        ) from error
    writer: Writer = getattr(found, name)(file, crawl, columns)
    return writer
