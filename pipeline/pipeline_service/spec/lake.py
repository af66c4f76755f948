"""Settings of the sinks that add files to a table, in the file of the pipelines."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from crawlstream.errors import ConfigError
from pipeline_service.spec.files_spec import SEGMENTS
from pipeline_service.spec.places import SQLITE, in_folder
from pipeline_service.spec.quantities import filled, flag, known, one_of, read_seconds, text
from pipeline_service.spec.quantities import table as _table
from pipeline_service.spec.sinks import BODIES

_YOUNGEST, _OLDEST = 5.0, 3_600.0
"""Each segment is a commit, and all partitions of a topic commit to one log."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_IDENTIFIER = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+")
_FOLDER = '"/folder" or "s3://bucket/folder"'
SCHEMES = ("file", "s3", "s3a")


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeSpec:
    """Settings of any table that consists of Parquet files and a log."""

    url: str
    """A folder, or ``s3://bucket/folder``; made where there is no table."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergSpec(LakeSpec):
    """An Iceberg table."""

    catalog: str
    """Name of a table ``[iceberg.NAME]``."""
    table: str
    """``namespace.name`` in the catalog; made where it does not exist."""
    max_age: float = 900.0
    """Longer than elsewhere, because each commit writes the metadata as a whole."""
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Properties of the catalog, with secrets."""


def read_delta(table: Mapping[str, Any], where: str) -> DeltaSpec:
    """Read a table of TOML; ConfigError."""
    known(table, [each.name for each in fields(DeltaSpec)], where)
    _check_there(table, {"url": _FOLDER}, where)
    return DeltaSpec(**{key: _READ[key](table[key], f"{where}.{key}") for key in table})


def read_iceberg(table: Mapping[str, Any], where: str) -> IcebergSpec:
    """Read a table of TOML; its catalog is looked up by `in_catalog`. ConfigError."""
    known(table, [each.name for each in fields(IcebergSpec) if each.name != "properties"], where)
    _check_there(
        table,
        {
            "catalog": '"NAME" of a table [iceberg.NAME]',
            "table": '"namespace.name"',
            "url": _FOLDER,
        },
        where,
    )
    readers = {**_READ, "url": _plain_url, "catalog": text, "table": _identifier}
    return IcebergSpec(**{key: readers[key](table[key], f"{where}.{key}") for key in table})


def read_catalogs(
    value: Any, environment: Mapping[str, str], folder: Path
) -> Mapping[str, Mapping[str, str]]:
    """Read the tables ``[iceberg.NAME]``; relative paths begin in ``folder``. ConfigError."""
    made = {}
    for name, properties in _table(filled(value, "iceberg", environment), "iceberg").items():
        where = f"iceberg.{name}"
        read = {
            key: text(each, f"{where}.{key}") for key, each in _table(properties, where).items()
        }
        if read.get("uri", "").startswith(SQLITE):
            read["uri"] = in_folder(read["uri"], folder)
        made[name] = read
    return made


def in_catalog(
    spec: IcebergSpec, catalogs: Mapping[str, Mapping[str, str]], where: str
) -> IcebergSpec:
    """Return the settings with the properties of their catalog; ConfigError."""
    if spec.catalog not in catalogs:
        there = ", ".join(catalogs) or "there is none"
        raise ConfigError(
            f"{where}.catalog: expected the NAME of a table [iceberg.NAME] of this file: {there}"
        )
    return replace(spec, properties=catalogs[spec.catalog])


def _check_there(table: Mapping[str, Any], needed: Mapping[str, str], where: str) -> None:
    for key, example in needed.items():
        if key not in table:
            raise ConfigError(f"{where}: missing: {key} = {example}")


def _identifier(value: Any, where: str) -> str:
    if not _IDENTIFIER.fullmatch(text(value, where)):
        raise ConfigError(
            f'{where}: expected "namespace.name": parts of letters, digits, "_" and "-"'
        )
    return str(value)


def _url(value: Any, where: str) -> str:
    found = _SCHEME.match(text(value, where))
    if found is not None and found[1] not in SCHEMES:
        raise ConfigError(f'{where}: expected a folder, or "s3://bucket/folder"')
    return str(value).rstrip("/") or "/"


def _plain_url(value: Any, where: str) -> str:
    """Return the URL of an Iceberg table, whose library does not read quoted ones."""
    if any(sign in (url := _url(value, where)) for sign in "#?%"):
        raise ConfigError(f"{where}: expected a folder without '#', '?' and '%'")
    return url


LAKE: Mapping[str, Callable[[Any, str], Any]] = {
    **SEGMENTS,
    "max_age": lambda value, where: read_seconds(value, where, least=_YOUNGEST, most=_OLDEST),
    "body": one_of(BODIES),
    "migrate": flag,
}
"""Readers of the keys that all such sinks have."""
_READ: Mapping[str, Callable[[Any, str], Any]] = {**LAKE, "url": _url}
