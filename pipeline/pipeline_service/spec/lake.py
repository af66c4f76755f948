"""Settings of the sinks that add files to a table, in the file of the pipelines."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from crawlstream.errors import ConfigError
from pipeline_service.spec.files_spec import SEGMENTS
from pipeline_service.spec.quantities import flag, known, one_of, read_seconds, text
from pipeline_service.spec.sinks import BODIES

_YOUNGEST, _OLDEST = 5.0, 3_600.0
"""Each segment is a commit, and all partitions of a topic commit to one log."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
SCHEMES = ("file", "s3", "s3a")


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeSpec:
    """Settings of any table that consists of Parquet files and a log."""

    partition_by: Sequence[str] = ("date",)
    max_bytes: int = 256 * 1024 * 1024
    """Largest file in bytes, compressed."""
    max_records: int = 200_000
    """Largest number of records of a commit."""
    max_age: float = 300.0
    """Seconds after the first record of a commit."""
    body: str = "none"
    """``none``; ``bytes``: a column; ``ref``: in the body store, and its URL in ``body_ref``."""
    migrate: bool = False
    """Add the columns that the table lacks."""

    @property
    def format(self) -> str:
        """Format of its files."""
        return "parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaSpec(LakeSpec):
    """A Delta table."""

    url: str
    """A folder, or ``s3://bucket/folder``; made where there is no table."""


def read_delta(table: Mapping[str, Any], where: str) -> DeltaSpec:
    """Read a table of TOML; ConfigError."""
    known(table, ["url", *(each.name for each in fields(LakeSpec))], where)
    if "url" not in table:
        raise ConfigError(f'{where}: missing: url = "/folder" or "s3://bucket/folder"')
    return DeltaSpec(**{key: _READ[key](table[key], f"{where}.{key}") for key in table})


def _url(value: Any, where: str) -> str:
    found = _SCHEME.match(text(value, where))
    if found is not None and found[1] not in SCHEMES:
        raise ConfigError(f'{where}: expected a folder, or "s3://bucket/folder"')
    return str(value).rstrip("/") or "/"


LAKE: Mapping[str, Callable[[Any, str], Any]] = {
    **SEGMENTS,
    "max_age": lambda value, where: read_seconds(value, where, least=_YOUNGEST, most=_OLDEST),
    "body": one_of(BODIES),
    "migrate": flag,
}
"""Readers of the keys that all such sinks have."""
_READ: Mapping[str, Callable[[Any, str], Any]] = {**LAKE, "url": _url}
