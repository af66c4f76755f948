"""WARC 1.1: requests and responses of pages, as archives store them.

A page is a ``response``, its ``request`` and a ``metadata`` record, which has the page's place in
its crawl as JSON, under a URI that players do not show. A screenshot that is in its record is a
``resource``, ``urn:view:`` and the URL. A 304 is a ``revisit`` without a body, and so is a page
whose payload another record holds. Ids are computed from the page's id and times are the page's, so
equal pages make equal files. The ``metadata`` of a page whose body was not kept, because the page
says so, takes the place of its ``response``.

A response whose record has it as it was sent (``archive`` of its crawl) is stored so. The body of
any other is stored after content decoding. Headers about its coding and length are therefore no
longer true, and are renamed ``X-Crawler-…``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO
from uuid import NAMESPACE_URL, UUID, uuid5

from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from crawlstream.model.delivered import Delivered
from crawlstream.model.result import OCCASIONAL, digest_of
from crawlstream.wire import jsontext
from pipeline_service.formats.cdxj import CdxjIndex
from pipeline_service.formats.columns import Column
from pipeline_service.formats.files import Crawl
from pipeline_service.formats.payloads import KnownPayloads, Payload, payload_of, warc_date
from pipeline_service.formats.warc_heads import (
    clean_line,
    clean_url,
    head_as_sent,
    head_decoded,
    head_of_request,
)

_VERSION = "1.1"
_CONFORMS_TO = "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"
_NOT_MODIFIED = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
_IDENTICAL = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
_PLACE = ("id", "appid", "crawlid", "spiderid", "run", "depth", "seed_url", "parent_url")
_ROUTE = ("redirect_urls", "attempt", "latency_ms", "uuid", "recovered", "attrs", "links", "digest")
_METADATA = dict.fromkeys(name for name in (*_PLACE, *_ROUTE, *OCCASIONAL) if name != "method")
_OF_ARCHIVES = ("kind", "requisites")
_URNS = {"metadata": "metadata", "resource": "view"}
_HEX_ID = re.compile(r"[0-9a-f]{32}\Z")


class _Sha256:
    """Digest in the form of the records of results."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.update = self._hash.update

    def __str__(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"


class Warc:
    """Writer of a file of gzip members, one per record."""

    def __init__(
        self,
        file: BinaryIO,
        crawl: Crawl,
        _: Sequence[Column],
        *,
        index: CdxjIndex | None = None,
        name: str = "",
        payloads: KnownPayloads | None = None,
    ) -> None:
        """``index`` gets a line for each response; without ``payloads`` all are stored.

        ``name``: of the file in its index; empty: that which it has.
        """
        self._payloads = payloads
        self._name = name
        self._file = file
        self._index = index
        self._writer: Any = WARCWriter(file, gzip=True, warc_version=_VERSION)
        self._writer._create_digester = _Sha256  # noqa: SLF001  warcio's own is SHA-1
        self._crawl = crawl
        self._is_begun = False

    def write(self, _: bytes, page: Delivered) -> None:
        """Add the records of a page."""
        if not self._is_begun:
            self._is_begun = True
            self._write_info(page)
        name = _uuid_of(page.id)
        beside = {"WARC-Date": warc_date(page)}
        first = {**beside, "WARC-Record-ID": _urn(name)}
        beside["WARC-Concurrent-To"] = _urn(name)
        place = {**beside, "WARC-Record-ID": _urn(uuid5(name, "metadata"))}
        if page.dropped is None:
            self._write_answer(page, first)
        else:
            place = first
        self._write_request(page, {**beside, "WARC-Record-ID": _urn(uuid5(name, "request"))})
        if page.screenshot_body:
            view = {**beside, "WARC-Record-ID": _urn(uuid5(name, "view"))}
            self._add("resource", page, {**view, "Content-Type": "image/png"}, page.screenshot_body)
        place["Content-Type"] = "application/json"
        known = {field: getattr(page, field) for field in _METADATA}
        known |= {name: page.extra[name] for name in _OF_ARCHIVES if name in page.extra}
        known["links"] = [{"url": url, "text": text} for url, text in page.links]
        self._add("metadata", page, place, jsontext.dumps(known))

    def close(self) -> None:
        """Do nothing: nothing is buffered."""

    def _write_info(self, first: Delivered) -> None:
        told = {
            "software": self._crawl.software,
            "format": "WARC File Format 1.1",
            "conformsTo": _CONFORMS_TO,
            "http-header-user-agent": self._crawl.user_agent,
            "robots": self._crawl.robots,
        }
        lines = (f"{name}: {clean_line(value)}\r\n" for name, value in told.items() if value)
        headers = {
            "WARC-Date": warc_date(first),
            "WARC-Record-ID": _urn(uuid5(_uuid_of(first.id), "warcinfo")),
        }
        self._add("warcinfo", None, headers, "".join(lines).encode())

    def _write_answer(self, page: Delivered, headers: dict[str, str]) -> None:
        if page.ip:
            headers["WARC-IP-Address"] = clean_line(page.ip)
        payload, http = payload_of(page), head_decoded(page)
        if page.as_sent and payload.is_as_sent:
            http, protocol = head_as_sent(page.as_sent)
            if protocol:
                headers["WARC-Protocol"] = protocol
        if payload.truncated:
            headers["WARC-Truncated"] = payload.truncated
        if page.status_code == HTTPStatus.NOT_MODIFIED:
            headers["WARC-Profile"] = _NOT_MODIFIED
            self._add("revisit", page, headers, b"", http=http)
        else:
            self._write_response(page, payload, headers, http)

    def _write_response(
        self, page: Delivered, payload: Payload, headers: dict[str, str], http: StatusAndHeaders
    ) -> None:
        """Write a response, or a reference to the record that holds its payload."""
        known = self._payloads
        digest = known.digest(page, payload) if known else digest_of(payload.body)
        holder = known.holder(page, payload, digest) if known else None
        headers["WARC-Payload-Digest"] = digest
        begin = self._file.tell() if self._index else 0
        if holder is None:
            self._add("response", page, headers, payload.body, http=http)
        else:
            headers["WARC-Profile"] = _IDENTICAL
            headers["WARC-Refers-To-Target-URI"] = holder.url
            headers["WARC-Refers-To-Date"] = holder.date
            self._add("revisit", page, headers, b"", http=http)
        self._note(page, digest, begin, mime="" if holder is None else "warc/revisit")

    def _note(self, page: Delivered, digest: str, begin: int, *, mime: str) -> None:
        """Add the latest record to the index. A 304 has no line: it refers to no record."""
        if self._index is not None:
            place = {
                "url": clean_url(page.response_url),
                "mime": mime or page.mime or "unk",
                "status": str(page.status_code),
                "digest": digest,
                "length": str(self._file.tell() - begin),
                "offset": str(begin),
                "filename": self._name or Path(self._file.name).name,
            }
            self._index.add(place["url"], page.timestamp, place)

    def _write_request(self, page: Delivered, headers: dict[str, str]) -> None:
        self._add("request", page, headers, b"", http=head_of_request(page))

    def _add(
        self,
        kind: str,
        page: Delivered | None,
        headers: Mapping[str, str],
        payload: bytes,
        *,
        http: StatusAndHeaders | None = None,
    ) -> None:
        self._writer.write_record(
            self._writer.create_warc_record(
                _uri(kind, page) if page else "",
                kind,
                payload=BytesIO(payload),
                length=len(payload),
                warc_headers_dict=headers,
                http_headers=http,
            )
        )


def _uri(kind: str, page: Delivered) -> str:
    url = clean_url(page.response_url)
    return f"urn:{_URNS[kind]}:{url}" if kind in _URNS else url


def _uuid_of(name: str) -> UUID:
    """Return a page's id, which is hex, as a UUID; for any other text, compute one from it."""
    return UUID(name) if _HEX_ID.match(name) else uuid5(NAMESPACE_URL, name)


def _urn(name: UUID) -> str:
    return f"<{name.urn}>"
