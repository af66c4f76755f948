"""Settings of the sink of files, in the file of the pipelines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from crawlstream.errors import ConfigError
from pipeline_service.formats.files import SEGMENT_FORMATS
from pipeline_service.spec.quantities import (
    known,
    one_of,
    read_bytes,
    read_seconds,
    some_of,
    text,
    whole,
)

PARTITIONED_BY = ("date", "appid", "crawlid", "spiderid", "status_class")
_YOUNGEST, _OLDEST = 1.0, 3_600.0
_LEAST_BYTES = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesSpec:
    """Where a pipeline's files are, and when one is complete."""

    path: str
    """URL of the folder, as fsspec has it; variables are filled in."""
    format: str = "jsonl.zst"
    partition_by: Sequence[str] = ("date",)
    max_bytes: int = 256 * 1024 * 1024
    """Largest file in bytes, compressed."""
    max_records: int = 200_000
    max_age: float = 900.0
    """Seconds after the first record of a file."""


def read_files(table: Mapping[str, Any], where: str) -> FilesSpec:
    """Read a table of TOML; ConfigError."""
    known(table, [each.name for each in fields(FilesSpec)], where)
    if "path" not in table:
        raise ConfigError(
            f'{where}: missing: path = "/folder" or a URL such as "s3://bucket/folder"'
        )
    return FilesSpec(**{key: _READ[key](table[key], f"{where}.{key}") for key in table})


SEGMENTS: Mapping[str, Callable[[Any, str], Any]] = {
    "partition_by": some_of(PARTITIONED_BY),
    "max_bytes": lambda value, where: read_bytes(value, where, least=_LEAST_BYTES),
    "max_records": whole(1, 10_000_000),
}
"""Readers of the keys that all sinks with segments have."""
_READ: Mapping[str, Callable[[Any, str], Any]] = {
    **SEGMENTS,
    "path": text,
    "format": one_of(SEGMENT_FORMATS),
    "max_age": lambda value, where: read_seconds(value, where, least=_YOUNGEST, most=_OLDEST),
}
