"""Reads the search index of a pipeline, and its texts about progress, as any client does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import Any

from crawlstream_chaos.facts.stored import ClaimedSegment, Stored

_TIMEOUT_S = 30
_PAGE = 1000
_STATUSES = frozenset([*range(200, 300), 404, 410])
"""Pages that are there, and pages that are gone; others change no document."""


class _Missing(Exception):
    """An index does not exist."""


class SearchReader:
    """Reads what one pipeline has stored in an index of an OpenSearch."""

    def __init__(self, pipeline: str, url: str, index: str) -> None:
        """``url``: of the server itself, past its proxy."""
        self.pipeline = pipeline
        self._address = url.removeprefix("http://")
        self._index = index
        self._judged: set[str] = set()

    def read(self, source: Mapping[int, int]) -> Stored:
        """All of it; ``source``: where each partition of the topic ends."""
        return Stored(
            pipeline=self.pipeline,
            statuses=_STATUSES,
            pages={},
            documents=[(each["url"], each["id"]) for each in self._all(self._index, "url", "id")],
            judged=frozenset(self._judged),
            segments=list(self._segments()),
            source=source,
        )

    def forget(self, stored: Stored) -> None:
        """Forget pages that were judged."""
        self._judged.update(page for _, page in stored.documents or ())

    def has_stored(self, source: Mapping[int, int]) -> bool:
        """Return whether all partitions are in the index up to these offsets."""
        # A fault may have the server in its hands.
        with suppress(OSError, HTTPException):
            ends = {each.partition: each.next for each in self._segments()}
            return all(ends.get(number, 0) >= end for number, end in source.items())
        return False

    def _segments(self) -> Iterator[ClaimedSegment]:
        """Yield all records of a partition as one segment without files."""
        notes = self._notes()
        for name in sorted(notes):
            place, _, kind = name.partition("/")
            if kind != "position":
                continue
            told = json.loads(notes[name])
            begin = f"{place}/run/"
            runs = {
                each.removeprefix(begin): json.loads(text)
                for each, text in notes.items()
                if each.startswith(begin)
            }
            yield ClaimedSegment(
                partition=int(place.rpartition("-")[2]),
                start=0,
                next=told["next"],
                files={},
                account={"total": told["total"], "runs": runs},
            )

    def _notes(self) -> Mapping[str, str]:
        """Return the texts about progress: those of the last step replace the ones before."""
        texts = {
            each["name"]: each["text"]
            for each in self._all(f"{self._index}-crawlstream", "owner", "name")
            if each["owner"].startswith(f"{self.pipeline}:")
        }
        notes: dict[str, str | None] = {
            name.removeprefix("note/"): text
            for name, text in texts.items()
            if name.startswith("note/")
        }
        for name, text in texts.items():
            notes |= json.loads(text) if name.startswith("step/") else {}
        return {name: text for name, text in notes.items() if text is not None}

    def _all(self, index: str, *by: str) -> Iterator[dict[str, Any]]:
        """Yield all documents of an index, sorted by keywords; none if it does not exist."""
        try:
            self._asked(f"/{index}/_refresh", {})
        except _Missing:
            return
        query: dict[str, Any] = {"size": _PAGE, "sort": [{name: "asc"} for name in by]}
        while hits := self._asked(f"/{index}/_search", query)["hits"]["hits"]:
            yield from (hit["_source"] for hit in hits)
            query["search_after"] = hits[-1]["sort"]

    def _asked(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the answer to a request; OSError, _Missing."""
        connection = HTTPConnection(self._address, timeout=_TIMEOUT_S)
        with closing(connection):
            headers = {"Content-Type": "application/json"}
            connection.request("POST", path, json.dumps(body), headers)
            answer = connection.getresponse()
            told = json.loads(answer.read())
        if answer.status == HTTPStatus.NOT_FOUND:
            raise _Missing
        if answer.status != HTTPStatus.OK:
            raise OSError(f"{path}: {answer.status}: {told}")
        return told
