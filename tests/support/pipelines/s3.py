"""A store that speaks S3, as far as tables and files of pipelines need it, on a port of its own.

It keeps objects in memory and checks no signatures. Unless ``is_careless``, it supports conditional
writes as S3 does: ``If-None-Match: *`` creates an object or fails with 412.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

_XML = '<?xml version="1.0" encoding="UTF-8"?>\n'
_FULL = "<ListBucketResult><IsTruncated>false</IsTruncated>{}</ListBucketResult>"
_OBJECT = (
    "<Contents><Key>{}</Key><LastModified>2026-11-21T00:00:00.000Z</LastModified>"
    '<ETag>"{}"</ETag><Size>{}</Size><StorageClass>STANDARD</StorageClass></Contents>'
)


@dataclass(slots=True)
class Bucket:
    """The objects of all buckets, by ``/bucket/name``."""

    port: int = 0
    is_careless: bool = False
    """True: conditions of writes are ignored, as by some stores."""
    objects: dict[str, bytes] = field(default_factory=dict)
    created: set[str] = field(default_factory=set)
    """Names that were written on the condition that they are new."""
    turn: threading.Lock = field(default_factory=threading.Lock)

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables by which AWS tools find it."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }


@contextmanager
def s3_server(*, is_careless: bool = False) -> Iterator[Bucket]:
    """Serve S3 for the length of a block."""
    bucket = Bucket(is_careless=is_careless)
    handler = type("Handler", (_Handler,), {"bucket": bucket})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        bucket.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=[0.05])
        thread.start()
        try:
            yield bucket
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    bucket: Bucket
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def _name(self) -> str:
        return unquote(urlsplit(self.path).path)

    def do_PUT(self) -> None:
        body, bucket = self._body(), self.bucket
        with bucket.turn:
            if self.headers.get("If-None-Match") == "*":
                if self._name in bucket.objects and not bucket.is_careless:
                    self._answer(412, _error("PreconditionFailed"))
                    return
                bucket.created.add(self._name)
            bucket.objects[self._name] = body
        self._answer(200, headers={"ETag": f'"{_tag(body)}"'})

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        if "list-type" in query:
            self._list(query)
        else:
            self._get()

    def do_HEAD(self) -> None:
        self._get()

    def do_DELETE(self) -> None:
        with self.bucket.turn:
            self.bucket.objects.pop(self._name, None)
        self._answer(204)

    def do_POST(self) -> None:
        """Remove many objects at once, which is the only POST that is needed."""
        body = self._body().decode()
        for part in body.split("<Key>")[1:]:
            name = part.partition("</Key>")[0]
            with self.bucket.turn:
                self.bucket.objects.pop(f"{self._name.rstrip('/')}/{name}", None)
        self._answer(200, f"{_XML}<DeleteResult></DeleteResult>".encode())

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def _get(self) -> None:
        content = self.bucket.objects.get(self._name)
        if content is None:
            self._answer(404, _error("NoSuchKey"))
            return
        headers = {
            "ETag": f'"{_tag(content)}"',
            "Last-Modified": formatdate(usegmt=True),
            "Accept-Ranges": "bytes",
        }
        wanted = self.headers.get("Range")
        if wanted is None:
            self._answer(200, content, headers)
            return
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        begin = int(first) if first else max(len(content) - int(last), 0)
        end = min(int(last) + 1, len(content)) if first and last else len(content)
        headers["Content-Range"] = f"bytes {begin}-{end - 1}/{len(content)}"
        self._answer(206, content[begin:end], headers)

    def _list(self, query: Mapping[str, list[str]]) -> None:
        prefix = f"{self._name.rstrip('/')}/{query.get('prefix', [''])[0]}"
        after = f"{self._name.rstrip('/')}/{query.get('start-after', [''])[0]}"
        delimiter = query.get("delimiter", [""])[0]
        begin, folders, found = len(self._name.rstrip("/")) + 1, dict[str, None](), []
        for name in sorted(self.bucket.objects):
            if not name.startswith(prefix) or name <= after:
                continue
            rest = name[len(prefix) :]
            if delimiter and delimiter in rest:
                folders[prefix[begin:] + rest.partition(delimiter)[0] + delimiter] = None
            else:
                content = self.bucket.objects[name]
                found.append(_OBJECT.format(escape(name[begin:]), _tag(content), len(content)))
        common = [f"<CommonPrefixes><Prefix>{escape(n)}</Prefix></CommonPrefixes>" for n in folders]
        count = f"<KeyCount>{len(found) + len(common)}</KeyCount>"
        self._answer(200, (_XML + _FULL.format("".join([count, *found, *common]))).encode())

    def _body(self) -> bytes:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "aws-chunked" not in self.headers.get("Content-Encoding", ""):
            return body
        plain = b""
        while body:
            size, _, rest = body.partition(b"\r\n")
            length = int(size.partition(b";")[0], 16)
            plain, body = plain + rest[:length], rest[length + 2 :] if length else b""
        return plain

    def _answer(
        self, status: int, body: bytes = b"", headers: Mapping[str, Any] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _tag(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def _error(code: str) -> bytes:
    return f"{_XML}<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
