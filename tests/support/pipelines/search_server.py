"""A server with the part of OpenSearch's API that a search sink uses, and faults on demand.

It answers as the documentation of the API says, and refuses everything that it does not know, so
that a request that a real server would refuse does not pass.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import orjson

from support.pipelines.search_index import ApiError, Document, SearchIndex

_CAS = {"if_seq_no", "if_primary_term"}
_KNOWN = {
    "_bulk": {"filter_path"},
    "_search": {"allow_partial_search_results", "preference"},
    "_doc": _CAS,
}
"""Parameters of each endpoint."""
_STATUS = {"created": 201, "not_found": 404}
"""Status of results; others have 200."""
_META = {"_id", "_index", "version", "version_type", "if_seq_no", "if_primary_term"}

Answer = tuple[int, Mapping[str, Any]]
Fault = Callable[[str, str], str | int | None]
"""Fault of a request, by method and path: None; ``lost``: the answer, after its effect; ``cut``:
the request, before it; a status: refused."""
ItemFault = Callable[[str, str], int | None]
"""Fault of an item of a bulk request, by operation and id: None, or a status: refused."""


class SearchServer:
    """Indexes, and what is wrong with the server."""

    def __init__(self) -> None:
        self.indexes: dict[str, SearchIndex] = {}
        self.requests: list[tuple[str, str, int]] = []
        """Method, path and bytes of each request."""
        self.fault: Fault = lambda _method, _path: None
        self.item_fault: ItemFault = lambda _operation, _id: None
        self.authorization = ""
        """The header to expect; empty: any."""
        self.max_bytes = 100 << 20
        self.distribution: str | None = "opensearch"
        self._turn = threading.Lock()

    def answer(self, method: str, target: str, body: bytes, authorization: str) -> Answer | None:
        """Return status and JSON; None: the connection is cut."""
        url = urlsplit(target)
        with self._turn:
            self.requests.append((method, url.path, len(body)))
            fault = self.fault(method, url.path)
            if fault == "cut":
                return None
            try:
                self._check(fault, len(body), authorization)
                made = self._routed(method, url, body)
            except ApiError as error:
                made = error.status, {"error": error.body, "status": error.status}
            return None if fault == "lost" else made

    def _check(self, fault: str | int | None, size: int, authorization: str) -> None:
        if self.authorization and authorization != self.authorization:
            raise ApiError(401, "security_exception", "missing credentials")
        if isinstance(fault, int):
            raise ApiError(fault, "rejected_execution_exception", "too many requests")
        if size > self.max_bytes:
            raise ApiError(413, "content_too_long_exception", "entity is too large")

    def _routed(self, method: str, url: SplitResult, body: bytes) -> Answer:
        name, verb, *rest = [*map(unquote, url.path.strip("/").split("/")), "", ""][:3]
        if not name:
            version = {"number": "3.2.0", "distribution": self.distribution}
            return 200, {"cluster_name": "tests", "version": version}
        parameters = dict(parse_qsl(url.query, keep_blank_values=True))
        if parameters.keys() - _KNOWN.get(verb, set()):
            raise ApiError(400, "illegal_argument_exception", f"unknown parameters {parameters}")
        if self.distribution != "opensearch" and parameters.get("preference") == "_primary":
            raise ApiError(400, "illegal_argument_exception", "no preference _primary")
        if not verb:
            return self._index(method, name, body)
        if name not in self.indexes:
            raise ApiError(404, "index_not_found_exception", f"no such index [{name}]")
        if verb in {"_doc", "_create"}:
            about = {**parameters, **({"op_type": "create"} if verb == "_create" else {})}
            return _document(self.indexes[name], method, rest[0], about, body)
        return 200, self._asked(self.indexes[name], f"{method} {verb}", body)

    def _asked(self, index: SearchIndex, what: str, body: bytes) -> Mapping[str, Any]:
        match what:
            case "POST _refresh":
                index.refresh()
                return {"_shards": {"total": 2, "successful": 1, "failed": 0}}
            case "PUT _mapping":
                index.map(orjson.loads(body))
            case "PUT _settings":
                index.set_up(orjson.loads(body)["index"])
            case "POST _search":
                return _found(index, orjson.loads(body or b"{}"))
            case "POST _bulk":
                return self._bulk(index, body)
            case _:
                raise ApiError(405, "method_not_allowed", what)
        return {"acknowledged": True}

    def _index(self, method: str, name: str, body: bytes) -> Answer:
        if method in {"GET", "HEAD"}:
            if name not in self.indexes:
                raise ApiError(404, "index_not_found_exception", f"no such index [{name}]")
            index = self.indexes[name]
            settings = {"index": {"uuid": name, "number_of_shards": "1", **index.settings}}
            return 200, {name: {"aliases": {}, "mappings": index.mappings, "settings": settings}}
        if method == "PUT":
            if name in self.indexes:
                raise ApiError(400, "resource_already_exists_exception", f"[{name}] exists")
            told, index = orjson.loads(body), SearchIndex(name)
            index.set_up(told.get("settings", {}).get("index", {}))
            index.map(told.get("mappings", {}))
            self.indexes[name] = index
            return 200, {"acknowledged": True, "shards_acknowledged": True, "index": name}
        raise ApiError(405, "method_not_allowed", method)

    def _bulk(self, index: SearchIndex, body: bytes) -> Mapping[str, Any]:
        if not body.endswith(b"\n"):
            raise ApiError(400, "illegal_argument_exception", "the request ends with a newline")
        lines, items, actions = iter(body.split(b"\n")[:-1]), [], []
        for line in lines:
            ((operation, about),) = orjson.loads(line).items()
            if about.keys() - _META or operation not in {"index", "delete"}:
                raise ApiError(400, "illegal_argument_exception", f"malformed action {line!r}")
            if not 0 < len(about["_id"].encode()) <= 512:
                raise ApiError(400, "action_request_validation_exception", "id is too long")
            actions.append((operation, about, next(lines) if operation == "index" else None))
        for operation, about, source in actions:
            items.append({operation: self._item(index, operation, about, source)})
        errors = any("error" in item for each in items for item in each.values())
        return {"errors": errors, "items": items}

    def _item(
        self, index: SearchIndex, operation: str, about: Mapping[str, Any], source: bytes | None
    ) -> Mapping[str, Any]:
        name = about["_id"]
        if status := self.item_fault(operation, name):
            error = {"type": "rejected_execution_exception", "reason": "the queue is full"}
            return {"_id": name, "status": status, "error": error}
        try:
            told = None if source is None else orjson.loads(source)
            result, _ = index.write(name, told, about)
        except ApiError as error:
            return {"_id": name, "status": error.status, "error": error.body}
        return {"_id": name, "result": result, "status": _STATUS.get(result, 200)}


@contextmanager
def search_server(certificate: Path | None = None) -> Iterator[tuple[SearchServer, str]]:
    """A server, and its URL; with a certificate it speaks TLS."""
    server = SearchServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            authorization = self.headers.get("authorization", "")
            made = server.answer(self.command, self.path, body, authorization)
            if made is None:
                self.close_connection = True
                return
            status, told = made
            sent = orjson.dumps(told)
            self.send_response(status)
            self.send_header("content-type", "application/json; charset=UTF-8")
            self.send_header("content-length", str(len(sent)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(sent)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer  # noqa: N815  names of http.server

        def log_message(self, *_: object) -> None:
            """Nothing is logged."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        listener.daemon_threads = True
        if certificate is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(certificate)
            listener.socket = context.wrap_socket(listener.socket, server_side=True)
        scheme = "http" if certificate is None else "https"
        thread = threading.Thread(target=listener.serve_forever, args=[0.05])
        thread.start()
        try:
            yield server, f"{scheme}://127.0.0.1:{listener.server_port}"
        finally:
            listener.shutdown()
            thread.join()


def _document(
    index: SearchIndex, method: str, name: str, about: Mapping[str, str], body: bytes
) -> Answer:
    """Read or write one document."""
    if method == "GET":
        live = index.live(name)
        if live is None:
            return 404, {"_index": index.name, "_id": name, "found": False}
        return 200, {**_shown(index, name, live), "found": True}
    source = None if method == "DELETE" else orjson.loads(body)
    result, made = index.write(name, source, about)
    shown = {key: value for key, value in _shown(index, name, made).items() if key != "_source"}
    return _STATUS.get(result, 200), {**shown, "result": result}


def _shown(index: SearchIndex, name: str, document: Document) -> dict[str, Any]:
    about = {"_version": document.version, "_seq_no": document.seq_no, "_primary_term": index.term}
    return {"_index": index.name, "_id": name, **about, "_source": document.source}


def _found(index: SearchIndex, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """Search as of the last refresh: terms and prefixes of keywords, sorted by one of them."""
    filters = asked.get("query", {}).get("bool", {}).get("filter", [])
    hits = []
    for name, document in index.visible.items():
        source = document.source or {}
        if all(_matches(index, source, each) for each in filters):
            sort = [source.get(key) for one in asked.get("sort", ()) for key in one]
            hits.append({**_shown(index, name, document), "sort": sort})
    hits.sort(key=lambda hit: [str(each).encode() for each in hit["sort"]])
    if after := asked.get("search_after"):
        last = [str(each).encode() for each in after]
        hits = [hit for hit in hits if [str(each).encode() for each in hit["sort"]] > last]
    shards = {"total": 1, "successful": 1, "failed": 0}
    found = {"total": {"value": len(hits), "relation": "eq"}, "hits": hits[: asked.get("size", 10)]}
    return {"timed_out": False, "_shards": shards, "hits": found}


def _matches(index: SearchIndex, source: Mapping[str, Any], rule: Mapping[str, Any]) -> bool:
    ((kind, told),) = rule.items()
    ((name, value),) = told.items()
    if index.mappings["properties"].get(name, {}).get("type") != "keyword":
        return False
    if kind == "term":
        return bool(source.get(name) == value)
    if kind == "prefix":
        return str(source.get(name, "")).startswith(value)
    raise ApiError(400, "parsing_exception", f"unknown query [{kind}]")
