"""Documents in an index, by bulk requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from crawlstream.errors import ConfigError
from crawlstream.plugins.sinks import Row, RowsRefused, SinkUnavailable
from crawlstream.wire import jsontext
from pipeline_service.formats.columns import Column, ColumnType
from pipeline_service.sinks.idempotent import STEP
from pipeline_service.sinks.search.connection import SearchClient, reason_of, segment
from pipeline_service.sinks.search.index_texts import SearchTexts
from pipeline_service.sinks.search.indexes import SearchIndexes

DOCUMENT = "_document"
"""A field of a row that has its `DocumentPlace`; without it, the row's key is the document's id."""
_BULK_BYTES, _BULK_ROWS = 10 << 20, 1000
"""Limits of a request; a larger document goes alone."""
_LONGEST_ID = 512
_ANSWER = "errors,items.*._id,items.*.status,items.*.error"
"""Parts of the answer that are read."""


class DocumentPlace(NamedTuple):
    """Document of a page, whichever result wrote it last."""

    id: str
    version: int
    """Microseconds since 1970; an older one has no effect."""
    is_gone: bool = False
    """True: the document is to be deleted."""


@dataclass(frozen=True, slots=True)
class _Item:
    """Row in a bulk request."""

    key: str
    id: str
    operation: str
    lines: bytes


class SearchStore:
    """Documents and texts of one edition of a pipeline: an `IdempotentStore`."""

    def __init__(
        self,
        client: SearchClient,
        index: str,
        *,
        owner: str,
        columns: Sequence[Column],
        migrate: bool = False,
    ) -> None:
        """``columns``: none for a store that only has texts."""
        self._client = client
        self._indexes = SearchIndexes(client, index, columns, migrate=migrate)
        self._texts = SearchTexts(client, self._indexes.of_texts, owner)
        self._columns = columns
        self._json = {column.name for column in columns if column.kind is ColumnType.JSON}

    def open(self) -> None:
        """Connect, and have the indexes. SinkUnavailable, ConfigError."""
        self._client.open()
        self._texts.open()
        self._indexes.make_texts()
        if self._columns:
            has_begun = bool(self._texts.read(STEP))
            self._indexes.make_documents(has_begun=has_begun, is_trial=False)

    def prove(self) -> None:
        """Show that ``open`` would do, and leave nothing behind; errors as there."""
        self._client.open()
        self._texts.open()
        has_begun = self._indexes.has_texts() and bool(self._texts.read(STEP))
        if self._columns:
            self._indexes.make_documents(has_begun=has_begun, is_trial=True)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def interrupt(self) -> None:
        """Make the call in progress fail; from another thread."""
        self._client.interrupt()

    def read(self, prefix: str) -> Mapping[str, str]:
        """Return the texts whose names begin so. SinkUnavailable."""
        return self._texts.read(prefix)

    def swap(self, name: str, expected: str | None, text: str | None) -> bool:
        """Write a text in place of the expected one. SinkUnavailable."""
        return self._texts.swap(name, expected, text)

    def put(self, rows: Sequence[Row]) -> None:
        """Write documents. SinkUnavailable; RowsRefused with the reason of each."""
        items = [self._item(row) for row in rows]
        refused = {
            item.key: f"the id of a document has 1 to {_LONGEST_ID} bytes of UTF-8"
            for item in items
            if not _is_id(item.id)
        }
        for some in _bulks([item for item in items if item.key not in refused]):
            refused |= self._written(some)
        if refused:
            raise RowsRefused("; ".join(sorted(set(refused.values()))[:3]), refused)

    def _item(self, row: Row) -> _Item:
        place = row.fields.get(DOCUMENT)
        if not isinstance(place, DocumentPlace):
            return self._indexing(row, row.key, {"_id": row.key})
        about = {"_id": place.id, "version": place.version, "version_type": "external_gte"}
        if place.is_gone:
            line = jsontext.dumps({"delete": about}) + b"\n"
            return _Item(row.key, place.id, "delete", line)
        return self._indexing(row, place.id, about)

    def _indexing(self, row: Row, name: str, about: Mapping[str, object]) -> _Item:
        source = {
            column: jsontext.loads(str(value).encode()) if column in self._json else value
            for column, value in row.fields.items()
            if value is not None and column != DOCUMENT
        }
        lines = jsontext.dumps({"index": about}) + b"\n" + jsontext.dumps(source) + b"\n"
        return _Item(row.key, name, "index", lines)

    def _written(self, items: Sequence[_Item]) -> Mapping[str, str]:
        """Send a bulk request; return the reasons of refused rows by their keys."""
        path = f"/{segment(self._indexes.name)}/_bulk"
        body = b"".join(item.lines for item in items)
        answer = self._client.call("POST", path, body, 400, 413, filter_path=_ANSWER)
        if answer.status == 200:
            return self._refusals(items, answer.body)
        if len(items) == 1:
            return {items[0].key: f"the server refuses the request: {answer.reason}"}
        half = len(items) // 2
        return {**self._written(items[:half]), **self._written(items[half:])}

    def _refusals(self, items: Sequence[_Item], body: Mapping[str, Any]) -> Mapping[str, str]:
        told = [(*each.items(),) for each in body.get("items", ())]
        expected = [(item.operation, item.id) for item in items]
        if [(of[0][0], of[0][1].get("_id")) for of in told] != expected:
            raise SinkUnavailable(f"{self._client.place} answers about other documents")
        refused: dict[str, str] = {}
        for item, ((_, result),) in zip(items, told, strict=True):
            if not _is_done(item, result):
                refused[item.key] = self._refusal(item, result)
        return refused

    def _refusal(self, item: _Item, result: Mapping[str, Any]) -> str:
        """Return why the server will never take a document; SinkUnavailable: it may later."""
        status, reason = result.get("status"), reason_of(result.get("error"))
        if status in (400, 413):
            return reason
        message = f"{self._client.place} answers {item.operation} with {status}: {reason}"
        if status in (401, 403) and "cluster_block_exception" not in reason:
            raise ConfigError(message)
        raise SinkUnavailable(message)


def _is_id(text: str) -> bool:
    """Return whether servers accept an id; they refuse whole requests because of one."""
    try:
        return 0 < len(text.encode()) <= _LONGEST_ID
    except UnicodeEncodeError:
        return False


def _is_done(item: _Item, result: Mapping[str, Any]) -> bool:
    """Return whether a document is as its row says, or newer."""
    status, error = result.get("status"), result.get("error")
    if status == 409:
        return isinstance(error, dict) and error.get("type") == "version_conflict_engine_exception"
    return not error and (status in (200, 201) or (item.operation, status) == ("delete", 404))


def _bulks(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    """Yield items in requests within the limits."""
    some: list[_Item] = []
    size = 0
    for item in items:
        if some and (size + len(item.lines) > _BULK_BYTES or len(some) == _BULK_ROWS):
            yield some
            some, size = [], 0
        some.append(item)
        size += len(item.lines)
    if some:
        yield some
