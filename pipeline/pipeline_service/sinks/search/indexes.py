"""The indexes of a pipeline: one of documents, one of the texts about its progress."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from crawlstream.errors import ConfigError
from pipeline_service.formats.columns import Column
from pipeline_service.sinks.search.connection import SearchClient, segment
from pipeline_service.sinks.search.mapping import misfit, properties_of

_KEPT_DELETES, _LEAST_S = "25h", 86_400
"""How long an index remembers the version of a document that was deleted."""
_SECONDS = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DURATION = re.compile(r"(\d+)(d|h|m|s|ms)\Z")
_OF_TEXTS: Mapping[str, Any] = {
    "settings": {"index": {"number_of_shards": 1, "hidden": True}},
    "mappings": {
        "dynamic": False,
        "properties": {"owner": {"type": "keyword"}, "name": {"type": "keyword"}},
    },
}


class SearchIndexes:
    """The indexes ``<name>`` and ``<name>-crawlstream``."""

    def __init__(
        self, client: SearchClient, name: str, columns: Sequence[Column], *, migrate: bool
    ) -> None:
        self.name = name
        self.of_texts = f"{name}-crawlstream"
        self._client = client
        self._columns = columns
        self._migrate = migrate

    def make_texts(self) -> None:
        """Have the index of texts. ConfigError, SinkUnavailable."""
        found = self._found(self.of_texts)
        if found is None:
            self._make(self.of_texts, _OF_TEXTS)

    def has_texts(self) -> bool:
        """Return whether there is an index of texts; nothing is made. ConfigError."""
        return self._found(self.of_texts) is not None

    def make_documents(self, *, has_begun: bool, is_trial: bool) -> None:
        """Have an index that fits the columns. ConfigError, SinkUnavailable.

        ``has_begun``: the pipeline has written to it. ``is_trial``: only look.
        """
        found = self._found(self.name)
        if found is None and has_begun:
            raise ConfigError(
                f"the index {self.name} is gone, but the pipeline has written to it: restore it, or"
                " begin a new edition of the pipeline"
            )
        if found is None and not is_trial:
            self._make(self.name, self._of_documents)
            found = self._found(self.name)
        if found is not None:
            self._fit(found, is_trial=is_trial)

    @property
    def _of_documents(self) -> Mapping[str, Any]:
        return {
            "settings": {"index": {"gc_deletes": _KEPT_DELETES}},
            "mappings": {"dynamic": False, "properties": properties_of(self._columns)},
        }

    def _fit(self, found: Mapping[str, Any], *, is_trial: bool) -> None:
        properties = found.get("mappings", {}).get("properties", {})
        for column in self._columns:
            if other := misfit(column, properties.get(column.name, {})) * (
                column.name in properties
            ):
                raise ConfigError(
                    f"the field {column.name} of the index {self.name} is of type {other}, which"
                    f" cannot hold {column.kind.value}: name another index"
                )
        lacking = [column for column in self._columns if column.name not in properties]
        forgets = _seconds(_setting(found, "gc_deletes") or "60s") < _LEAST_S
        if (lacking or forgets) and not self._migrate:
            self._complain(lacking)
        if not is_trial and lacking:
            added = {"properties": properties_of(lacking)}
            self._client.call("PUT", f"/{segment(self.name)}/_mapping", added)
        if not is_trial and forgets:
            kept = {"index": {"gc_deletes": _KEPT_DELETES}}
            self._client.call("PUT", f"/{segment(self.name)}/_settings", kept)

    def _complain(self, lacking: Sequence[Column]) -> None:
        if lacking:
            raise ConfigError(
                f"the index {self.name} has no field {', '.join(each.name for each in lacking)}:"
                " set migrate = true to have them added, or name another index"
            )
        raise ConfigError(
            f"the index {self.name} forgets the versions of deleted documents within a day, so that"
            f" late writes would bring them back: set its index.gc_deletes to {_KEPT_DELETES}, or"
            " migrate = true to have it set"
        )

    def _found(self, name: str) -> Mapping[str, Any] | None:
        """Return settings and mapping of an index; None: there is none. ConfigError."""
        answer = self._client.call("GET", f"/{segment(name)}", None, 404)
        if answer.status == 404:
            return None
        if len(answer.body) != 1:
            raise ConfigError(
                f"{name} is an alias of several indexes, in which a page could be twice: name one"
            )
        (found,) = answer.body.values()
        if "data_stream" in found:
            raise ConfigError(
                f"{name} is a data stream, whose documents have no versions: name an index"
            )
        if _setting(found, "translog", "durability") == "async":
            raise ConfigError(
                f"the index {name} may lose writes that it has confirmed: set its"
                " index.translog.durability to request"
            )
        return dict(found)

    def _make(self, name: str, shape: Mapping[str, Any]) -> None:
        """Create an index, unless another process has just done so."""
        answer = self._client.call("PUT", f"/{segment(name)}", shape, 400)
        if answer.status == 400 and answer.error != "resource_already_exists_exception":
            raise ConfigError(f"the index {name} cannot be created: {answer.reason}")


def _setting(found: Mapping[str, Any], *path: str) -> str:
    """Return a setting of an index; empty: its default."""
    told: Any = found.get("settings", {}).get("index", {})
    for name in path:
        told = told.get(name, {}) if isinstance(told, dict) else {}
    return told if isinstance(told, str) else ""


def _seconds(duration: str) -> float:
    found = _DURATION.match(duration)
    return float(found[1]) * _SECONDS[found[2]] if found else 0.0
