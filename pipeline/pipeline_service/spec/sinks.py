"""Settings of the sinks that hold rows, in the file of the pipelines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from importlib.metadata import entry_points
from typing import Any

from urllib3.exceptions import LocationParseError
from urllib3.util import parse_url

from crawlstream.errors import ConfigError
from pipeline_service.spec.quantities import flag, known, one_of, text

SCHEMES = ("postgresql", "sqlite")
BODIES = ("none", "bytes", "ref")
ON_REPEAT = ("keep", "replace")
DOCUMENTS = ("page", "visit")
GROUP = "crawlstream.sinks"
"""Group of entry points; an entry point names a maker of a store, ``plugins.sinks.MakeStore``."""
_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]{0,62}\Z")
_INDEX = re.compile(r"[a-z0-9][a-z0-9._-]{0,199}\Z")
_SERVER = re.compile(r"https?://[^/?#]+(/[^?#]*)?\Z")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")
_SCHEME = re.compile(r"([a-z]+)://")


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlSpec:
    """A table of PostgreSQL or SQLite."""

    url: str
    """``postgresql://user:password@host:port/database``, or ``sqlite:///file``."""
    table: str = "pages"
    """Made where it does not exist."""
    body: str = "none"
    """``none``; ``bytes``: a column; ``ref``: in the body store, and its URL in ``body_ref``."""
    on_repeat: str = "keep"
    """``keep`` the row that is there, or ``replace`` it."""
    migrate: bool = False
    """Add the columns that a table of an earlier version lacks."""

    @property
    def scheme(self) -> str:
        """Scheme, an element of SCHEMES."""
        return self.url.partition("://")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSpec:
    """Another topic."""

    topic: str
    """Its whole name; made where it does not exist."""
    exactly_once: bool = True
    """In transactions; else each page is there at least once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSpec:
    """An index of OpenSearch, Elasticsearch, or another server with their API."""

    url: str
    """``https://user:password@host:port``."""
    index: str = "pages"
    """Made where it does not exist."""
    document: str = "page"
    """``page``: one document per URL, as it was seen last; ``visit``: one per result or item."""
    api_key: str = ""
    """Sent in place of user and password."""
    ca: str = ""
    """File with the certificates of authorities; empty: those of the system."""
    migrate: bool = False
    """Add the fields that an index of an earlier version lacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSpec:
    """Sink of a package that is installed besides crawlstream."""

    kind: str
    """Name of its entry point in GROUP."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options that only the sink interprets."""


def read_plugin(
    kind: object, table: Mapping[str, Any], where: str, *, ours: Iterable[str]
) -> PluginSpec:
    """Read a table of TOML whose ``kind`` is not in ``ours``; ConfigError."""
    installed = sorted(entry.name for entry in entry_points(group=GROUP))
    if not isinstance(kind, str) or kind not in installed:
        raise ConfigError(f"{where}.kind: expected one of {', '.join([*ours, *installed])}")
    return PluginSpec(kind=kind, options=table)


def read_kafka(table: Mapping[str, Any], where: str) -> KafkaSpec:
    """Read a table of TOML; ConfigError."""
    known(table, [each.name for each in fields(KafkaSpec)], where)
    if "topic" not in table:
        raise ConfigError(f'{where}: missing: topic = "a topic\'s whole name"')
    return KafkaSpec(**{key: _KAFKA[key](table[key], f"{where}.{key}") for key in table})


def _topic(value: Any, where: str) -> str:
    if not _TOPIC.match(text(value, where)) or value in (".", ".."):
        raise ConfigError(f"{where}: expected 1 to 249 characters of A-Z, a-z, 0-9, '.', '_', '-'")
    return str(value)


def read_sql(table: Mapping[str, Any], where: str) -> SqlSpec:
    """Read a table of TOML; ConfigError."""
    known(table, [each.name for each in fields(SqlSpec)], where)
    if "url" not in table:
        raise ConfigError(
            f'{where}: missing: url = "postgresql://user@host/database" or "sqlite:///file"'
        )
    return SqlSpec(**{key: SQL[key](table[key], f"{where}.{key}") for key in table})


def read_search(table: Mapping[str, Any], where: str) -> SearchSpec:
    """Read a table of TOML; ConfigError."""
    known(table, [each.name for each in fields(SearchSpec)], where)
    if "url" not in table:
        raise ConfigError(f'{where}: missing: url = "https://user:${{PASSWORD}}@host:9200"')
    spec = SearchSpec(**{key: _SEARCH[key](table[key], f"{where}.{key}") for key in table})
    if spec.api_key and "@" in spec.url:
        raise ConfigError(f"{where}: url has a user besides the api_key: remove one of both")
    return spec


def _server(value: Any, where: str) -> str:
    if not _SERVER.match(text(value, where)):
        raise ConfigError(f'{where}: expected "https://user:password@host:port"')
    try:
        parse_url(value)
    except LocationParseError as error:
        raise ConfigError(f"{where}: {error}") from error
    return str(value)


def _index(value: Any, where: str) -> str:
    if not _INDEX.match(text(value, where)):
        raise ConfigError(
            f"{where}: expected 1 to 200 characters of a-z, 0-9, '.', '_', '-', letter or digit"
            " first"
        )
    return str(value)


def read_url(value: Any, where: str) -> str:
    """Return the URL of a database; ConfigError."""
    found = _SCHEME.match(text(value, where))
    if found is None or found[1] not in SCHEMES:
        raise ConfigError(
            f'{where}: expected "postgresql://user:password@host:port/database" or "sqlite:///file"'
        )
    if found[1] == "sqlite" and not re.match(r"sqlite:///.", value):
        raise ConfigError(
            f'{where}: expected three slashes and a path: "sqlite:///pages.db" is a file in the'
            ' folder of this file, "sqlite:////srv/pages.db" a whole path'
        )
    return str(value)


def _table(value: Any, where: str) -> str:
    if not _IDENTIFIER.match(text(value, where)):
        raise ConfigError(
            f"{where}: expected 1 to 63 characters of a-z, 0-9 and '_', no digit first"
        )
    return str(value)


SQL: Mapping[str, Callable[[Any, str], Any]] = {
    "url": read_url,
    "table": _table,
    "body": one_of(BODIES),
    "on_repeat": one_of(ON_REPEAT),
    "migrate": flag,
}
_KAFKA: Mapping[str, Callable[[Any, str], Any]] = {"topic": _topic, "exactly_once": flag}
_SEARCH: Mapping[str, Callable[[Any, str], Any]] = {
    "url": _server,
    "index": _index,
    "document": one_of(DOCUMENTS),
    "api_key": text,
    "ca": text,
    "migrate": flag,
}
