"""Settings of the sink of files, in the file of the pipelines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from crawlstream.errors import ConfigError
from pipeline_service.formats.files import SEGMENT_FORMATS
from pipeline_service.spec.places import in_folder
from pipeline_service.spec.quantities import (
    known,
    one_of,
    read_bytes,
    read_duration,
    read_seconds,
    some_of,
    table,
    text,
    whole,
)
from pipeline_service.spec.sinks import read_url

PARTITIONED_BY = ("date", "appid", "crawlid", "spiderid", "status_class")
_YOUNGEST, _OLDEST = 1.0, 3_600.0
_LEAST_BYTES = 1024
_DAY_S = 86_400
_SCOPES = ("pipeline", "run")


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisitsSpec:
    """Payloads that WARC files hold once."""

    scope: str = "pipeline"
    """``pipeline``: a payload that any earlier page had; ``run``: one of the page's own run."""
    age: float = 30.0 * _DAY_S
    """Seconds that the record of a payload may be older than its revisit."""
    most: int = 1_000_000
    """Number of payloads that are known at a time."""
    index: str = ""
    """URL of the database that knows them; empty: a file of SQLite next to the positions."""


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
    revisits: RevisitsSpec | None = field(default=None, repr=False)
    """Payloads that are not stored again; None: all are stored."""

    @property
    def digest_words(self) -> Sequence[str]:
        """Settings in the digest of its pipeline, besides those of `repr`."""
        one = self.revisits
        return () if one is None else (one.scope, str(one.age), str(one.most), one.index)

    def placed(self, folder: Path) -> FilesSpec:
        """Return it with relative paths that begin in a folder."""
        revisits = self.revisits
        if revisits is not None:
            revisits = replace(revisits, index=revisits.index and in_folder(revisits.index, folder))
        return replace(self, path=in_folder(self.path, folder), revisits=revisits)


def read_files(told: Mapping[str, Any], where: str) -> FilesSpec:
    """Read a table of TOML; ConfigError."""
    known(told, [each.name for each in fields(FilesSpec)], where)
    if "path" not in told:
        raise ConfigError(
            f'{where}: missing: path = "/folder" or a URL such as "s3://bucket/folder"'
        )
    spec = FilesSpec(**{key: _READ[key](told[key], f"{where}.{key}") for key in told})
    if spec.revisits and spec.format != "warc.gz":
        raise ConfigError(f'{where}.revisits: only format = "warc.gz" has revisits')
    return spec


def _revisits(value: Any, where: str) -> RevisitsSpec:
    told = table(value, where)
    known(told, [each.name for each in fields(RevisitsSpec)], where)
    return RevisitsSpec(**{key: _REVISITS[key](told[key], f"{where}.{key}") for key in told})


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
    "revisits": _revisits,
}
_REVISITS: Mapping[str, Callable[[Any, str], Any]] = {
    "scope": one_of(_SCOPES),
    "age": lambda value, where: read_duration(value, where, least=60, most=3_650 * _DAY_S),
    "most": whole(1_000, 100_000_000),
    "index": read_url,
}
