"""An index of documents as OpenSearch documents it: versions, sequence numbers, refresh, mapping.

As strict as the documentation: unknown settings, types and parameters are errors, a search sees
only what was there at the last refresh, and a deleted document is forgotten after ``gc_deletes``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

TYPES = {
    *("keyword", "text", "long", "double", "float", "boolean", "date", "object", "flat_object"),
}
_SETTINGS = {"number_of_shards", "number_of_replicas", "hidden", "gc_deletes", "translog"}
_PARAMETERS = {"type", "ignore_above", "enabled", "index", "properties"}
_PYTHON = {"keyword": str, "text": str, "boolean": bool}
_LONGEST_TERM = 32766
_SECONDS = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


class ApiError(Exception):
    """An error as the API reports it."""

    def __init__(self, status: int, kind: str, reason: str, cause: str = "") -> None:
        super().__init__(reason)
        self.status = status
        self.body: dict[str, Any] = {"type": kind, "reason": reason}
        if cause:
            self.body["caused_by"] = {"type": "illegal_argument_exception", "reason": cause}


@dataclass
class Document:
    """The last operation on an id; a deleted one is kept for its version."""

    version: int
    seq_no: int
    source: Mapping[str, Any] | None
    deleted_at: float = 0.0


@dataclass
class SearchIndex:
    """Index with one shard."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    mappings: dict[str, Any] = field(default_factory=dict)
    now: float = 0.0
    """Its clock in seconds; a test moves it on."""
    term: int = 1
    documents: dict[str, Document] = field(default_factory=dict)
    visible: dict[str, Document] = field(default_factory=dict)
    """Documents as of the last refresh."""
    _seq_no: int = -1

    def set_up(self, settings: Mapping[str, Any]) -> None:
        """Take settings."""
        for name in settings:
            if name not in _SETTINGS:
                raise ApiError(400, "illegal_argument_exception", f"unknown setting [index.{name}]")
        self.settings |= {
            name: value if isinstance(value, dict) else str(value).lower()
            for name, value in settings.items()
        }

    def map(self, mappings: Mapping[str, Any]) -> None:
        """Take a mapping, or more of it; a field keeps its type."""
        if unknown := mappings.keys() - {"dynamic", "properties"}:
            raise ApiError(400, "mapper_parsing_exception", f"unsupported parameters {unknown}")
        known = self.mappings.setdefault("properties", {})
        for name, rule in mappings.get("properties", {}).items():
            if rule.keys() - _PARAMETERS or rule.get("type", "object") not in TYPES:
                raise ApiError(400, "mapper_parsing_exception", f"no such mapping of [{name}]")
            if name in known and _fixed(known[name]) != _fixed(rule):
                raise ApiError(400, "illegal_argument_exception", f"[{name}] is another type")
            known[name] = dict(rule)
        if "dynamic" in mappings:
            self.mappings["dynamic"] = str(mappings["dynamic"]).lower()

    def live(self, name: str) -> Document | None:
        """Return a document, as a realtime GET does."""
        found = self.documents.get(name)
        return found if found is not None and found.source is not None else None

    def refresh(self) -> None:
        """Have searches see all that was written."""
        self.visible = {name: each for name, each in self.documents.items() if each.source}

    def write(
        self, name: str, source: Mapping[str, Any] | None, about: Mapping[str, Any]
    ) -> tuple[str, Document]:
        """Index or delete a document; return the result and the document."""
        if not 0 < len(name.encode()) <= 512:
            raise ApiError(400, "action_request_validation_exception", "id has 1 to 512 bytes")
        self._collect()
        before, was_there = self.documents.get(name), self.live(name) is not None
        version = self._version(name, before, about)
        if source is not None:
            self._check(name, source)
        self._seq_no += 1
        made = Document(version, self._seq_no, deepcopy(source), self.now)
        self.documents[name] = made
        if source is None:
            return ("deleted" if was_there else "not_found"), made
        return ("updated" if was_there else "created"), made

    def _version(self, name: str, before: Document | None, about: Mapping[str, Any]) -> int:
        live = before if before is not None and before.source is not None else None
        if "if_seq_no" in about:
            expected = int(about["if_seq_no"]), int(about["if_primary_term"])
            if live is None or (live.seq_no, self.term) != expected:
                raise _conflict(name, f"required seqNo [{expected}]")
        if about.get("op_type") == "create" and live is not None:
            raise _conflict(name, f"document already exists (current version [{live.version}])")
        if about.get("version_type") == "external_gte":
            version = int(about["version"])
            if before is not None and before.version > version:
                raise _conflict(name, f"current version [{before.version}] is higher")
            return version
        if "version" in about or "version_type" in about:
            raise ApiError(400, "action_request_validation_exception", "no such kind of version")
        return before.version + 1 if before is not None else 1

    def _collect(self) -> None:
        """Forget deleted documents that are old enough."""
        found = re.fullmatch(r"(\d+)(d|h|m|s|ms)", self.settings.get("gc_deletes", "60s"))
        assert found
        kept_s = int(found[1]) * _SECONDS[found[2]]
        self.documents = {
            name: each
            for name, each in self.documents.items()
            if each.source is not None or each.deleted_at + kept_s > self.now
        }

    def _check(self, name: str, source: Mapping[str, Any]) -> None:
        """Refuse a document that does not fit the mapping; unmapped fields are only stored."""
        for key, rule in self.mappings.get("properties", {}).items():
            value = source.get(key)
            for each in value if isinstance(value, list) else [value]:
                if each is not None and not _fits(rule, each):
                    kind = rule.get("type", "object")
                    shown = f"failed to parse field [{key}] of type [{kind}] in document '{name}'"
                    raise ApiError(400, "mapper_parsing_exception", shown, f"not {kind}")
                if rule.get("type") == "keyword" and _is_immense(rule, each):
                    shown = f'Document contains at least one immense term in field="{key}"'
                    raise ApiError(400, "illegal_argument_exception", shown)


def _conflict(name: str, reason: str) -> ApiError:
    return ApiError(
        409, "version_conflict_engine_exception", f"[{name}]: version conflict, {reason}"
    )


def _fits(rule: Mapping[str, Any], value: Any) -> bool:
    if rule.get("enabled") is False:
        return True
    kind = rule.get("type", "object")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "long":
        return is_number and int(value) == value and -(1 << 63) <= value < 1 << 63
    if kind in {"double", "float"}:
        return is_number
    if kind == "date":
        return isinstance(value, str) and _is_date(value)
    return isinstance(value, _PYTHON.get(kind, dict))


def _is_immense(rule: Mapping[str, Any], value: Any) -> bool:
    """Return whether a keyword is indexed, and longer than a term may be."""
    return (
        value is not None
        and len(value.encode()) > _LONGEST_TERM
        and (len(value) <= rule.get("ignore_above", 1e9))
    )


def _fixed(rule: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of a rule that cannot be changed."""
    return {name: value for name, value in rule.items() if name != "ignore_above"}


def _is_date(value: str) -> bool:
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True
