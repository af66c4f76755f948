"""Texts in an index, each a document that is replaced only if it is the expected one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from crawlstream.plugins.sinks import SinkUnavailable
from pipeline_service.sinks.search.connection import SearchAnswer, SearchClient, segment

_PAGE = 200
"""Texts in one answer; each has some kilobytes."""
_TRIES = 100


class _Known(NamedTuple):
    """A text and the place of its last write in the order of the index."""

    text: str
    seq_no: int
    primary_term: int


class SearchTexts:
    """Texts of one owner.

    Reading one by its name is always current. A search is current after a refresh, on the primary
    shard: in OpenSearch, replicas may lag behind it.
    """

    def __init__(self, client: SearchClient, index: str, owner: str) -> None:
        self._client = client
        self._index = segment(index)
        self._owner = owner
        self._known: dict[str, _Known] = {}
        """As last read or written, to save a request; the server compares."""
        self._preference: Mapping[str, object] = {}

    def open(self) -> None:
        """Find out which server it is. ConfigError, SinkUnavailable."""
        self._known = {}
        version = self._client.call("GET", "/").body.get("version", {})
        if not isinstance(version, dict) or "number" not in version:
            raise SinkUnavailable(
                f"{self._client.place} reports no version: check that url leads to OpenSearch"
                " or Elasticsearch"
            )
        is_opensearch = version.get("distribution") == "opensearch"
        self._preference = {"preference": "_primary"} if is_opensearch else {}

    def read(self, prefix: str) -> Mapping[str, str]:
        """Return the texts whose names begin so, as they are now. SinkUnavailable."""
        self._whole(self._client.call("POST", f"/{self._index}/_refresh"))
        query: list[Mapping[str, Any]] = [{"term": {"owner": self._owner}}]
        if prefix:
            query.append({"prefix": {"name": prefix}})
        asked: dict[str, Any] = {
            "size": _PAGE,
            "query": {"bool": {"filter": query}},
            "sort": [{"name": "asc"}],
            "seq_no_primary_term": True,
        }
        texts: dict[str, str] = {}
        while hits := self._hits(asked):
            texts |= {hit["_source"]["name"]: self._noted(hit).text for hit in hits}
            asked["search_after"] = hits[-1]["sort"]
        return texts

    def swap(self, name: str, expected: str | None, text: str | None) -> bool:
        """Write a text in place of the expected one; see `IdempotentStore`. SinkUnavailable."""
        for _ in range(_TRIES):
            known = self._known.get(name)
            if known is None or known.text != expected:
                known = self._get(name)
            if (known and known.text) != expected:
                return False
            if self._replaced(name, known, text):
                return True
            # Another text is there by now, or this one was written again.
            self._known.pop(name, None)
        raise SinkUnavailable(f"other processes changed the text {name} before each attempt")

    def _replaced(self, name: str, known: _Known | None, text: str | None) -> bool:
        """Write a text if its document is as it is known."""
        if known is None and text is None:
            return True
        place = {"if_seq_no": known.seq_no, "if_primary_term": known.primary_term} if known else {}
        path = f"/{self._index}/{'_doc' if known else '_create'}/{self._id(name)}"
        if text is None:
            answer = self._client.call("DELETE", path, None, 404, 409, **place)
            self._known.pop(name, None)
            return answer.status == 200
        told = {"owner": self._owner, "name": name, "text": text}
        answer = self._client.call("PUT", path, told, 409, **place)
        if answer.status == 409:
            return False
        self._noted({**answer.body, "_source": told})
        return True

    def _get(self, name: str) -> _Known | None:
        answer = self._client.call("GET", f"/{self._index}/_doc/{self._id(name)}", None, 404)
        if answer.status == 404 and answer.error:
            raise SinkUnavailable(f"{self._client.place}: {answer.reason}")
        return self._noted(answer.body) if answer.body.get("found") else None

    def _noted(self, document: Mapping[str, Any]) -> _Known:
        source = document["_source"]
        known = _Known(source["text"], document["_seq_no"], document["_primary_term"])
        self._known[source["name"]] = known
        return known

    def _hits(self, asked: Mapping[str, Any]) -> list[Any]:
        answer = self._client.call(
            "POST",
            f"/{self._index}/_search",
            asked,
            allow_partial_search_results="false",
            **self._preference,
        )
        self._whole(answer)
        return list(answer.body["hits"]["hits"])

    def _whole(self, answer: SearchAnswer) -> None:
        """SinkUnavailable if parts of the index did not answer."""
        shards = answer.body.get("_shards", {})
        if shards.get("failed") or answer.body.get("timed_out"):
            raise SinkUnavailable(f"{self._client.place}: parts of the index do not answer")

    def _id(self, name: str) -> str:
        """Return an id of few bytes, as ids have 512 at most."""
        text = f"{len(self._owner)}:{self._owner}{name}"
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
