"""Decode the records of results to typed values; a topic may contain any bytes."""

from __future__ import annotations

import codecs
import re
from base64 import b64decode
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, replace
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import orjson

from crawlstream.errors import CrawlstreamError
from crawlstream.model.delivered import PAGE_FIELDS, Delivered, TextHeaders
from crawlstream.model.result import AsSent, PageField
from crawlstream.wire import jsontext
from crawlstream.wire.results import NOT_CHARSETS

_BIGGEST = 1 << 63
_LONGEST_ID = 1_000
"""Characters of a value that other programs use as a name."""
_LONGEST_CHARSET = 40
_HEADERS = re.compile(r"[^\n]+(?:\n[ \t][^\n]*)*\n?|\n")
"""Lines of a head; each with those that continue it."""
T = TypeVar("T")


class NotAResult(CrawlstreamError):
    """The record is not a result."""


def decode(value: bytes | None) -> Delivered:
    """Return the page in a record's value; raise NotAResult with the invalid field."""
    if not value:
        raise NotAResult("the record is empty")
    record = _parsed(value)
    take = _Fields(record)
    page = {name: take.field(PAGE_FIELDS[name], read) for name, read in _READERS.items()}
    page |= {**_links_of(take), **_body_of(take)}
    record.pop("status_msg", None)
    return Delivered(**page, extra=record)


def _parsed(value: bytes) -> dict[str, Any]:
    try:
        record = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise NotAResult(f"the record is not JSON: {error}") from error
    if not isinstance(record, dict):
        raise NotAResult("the record is not a JSON object")
    return _exact(value, record)


def _exact(value: bytes, record: dict[str, Any]) -> dict[str, Any]:
    """Return the record with exact numbers beyond 64 bits: clients may put them in ``attrs``."""
    if record.get("attrs") is None or not jsontext.has_long_number(value):
        return record
    try:
        return cast("dict[str, Any]", jsontext.loads(value))
    except ValueError as error:
        raise NotAResult(f"the record is not JSON: {error}") from error


class _Fields:
    """Record from which each field is taken once."""

    def __init__(self, record: dict[str, Any]) -> None:
        self._record = record

    def field(self, field: PageField, read: Callable[[Any], Any]) -> Any:
        """Take a field, or its default; raise NotAResult if it has none."""
        value = self.maybe(field.name, read)
        if field.default is not MISSING:
            return value if field.default is None else value or field.default
        if value is None:
            raise NotAResult(f"$.{field.name}: missing")
        return value

    def maybe(self, name: str, read: Callable[[Any], T]) -> T | None:
        """Take a field that may be absent or null."""
        if self._record.get(name) is None:
            self._record.pop(name, None)
            return None
        return self._read(name, read)

    def _read(self, name: str, read: Callable[[Any], T]) -> T:
        try:
            return read(self._record.pop(name))
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise NotAResult(f"$.{name}: {error}") from error


def _body_of(take: _Fields) -> Mapping[str, Any]:
    encoding = take.maybe("encoding", _text)
    how = take.maybe("body_encoding", _text)
    text = take.maybe("body", _text) or ""
    try:
        body = b64decode(text, validate=True) if how == "base64" else _bytes(text, encoding)
    except ValueError as error:
        raise NotAResult(f"$.body: is not {how or encoding}: {error}") from error
    size = take.maybe("body_size", _whole)
    whole = len(body) if size is None else size
    return {"encoding": encoding, "body": body, "body_size": whole}


def _bytes(text: str, encoding: str | None) -> bytes:
    """Return text in its encoding; UTF-8 if the encoding is missing or does not fit."""
    known = encoding and len(encoding) <= _LONGEST_CHARSET and encoding.isascii()
    try:
        if not encoding or not known or codecs.lookup(encoding).name in NOT_CHARSETS:
            return text.encode()
        return text.encode(encoding)
    except (LookupError, ValueError):
        return text.encode()


def _is(value: Any, kind: type[T], wanted: str) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"expected {wanted}")
    return value


def _text(value: Any) -> str:
    return _is(value, str, "text")


def _of_the_web(value: Any) -> str:
    """Return a http or https URL: archives with any other could be written, but not read."""
    if not _text(value).startswith(("http://", "https://")):
        raise ValueError("expected a URL that begins with http:// or https://")
    return _text(value)


def _name(value: Any) -> str:
    if not 0 < len(_text(value)) <= _LONGEST_ID:
        raise ValueError(f"expected 1 to {_LONGEST_ID} characters")
    return _text(value)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not -_BIGGEST <= _is(value, int, "an integer") < _BIGGEST:
        raise ValueError("expected an integer of 64 bits")
    return int(value)


def _flag(value: Any) -> bool:
    return _is(value, bool, "true or false")


def _object(value: Any) -> Mapping[str, object]:
    return _is(value, dict, "an object")


def _texts(value: Any) -> Sequence[str]:
    return [_text(each) for each in _is(value, list, "a list of texts")]


def _headers(value: Any) -> TextHeaders:
    headers = _is(value, dict, "an object of lists of texts")
    return {name: _texts(values) for name, values in headers.items()}


def _links_of(take: _Fields) -> Mapping[str, Any]:
    links = take.maybe("links", _links) or ()
    lastmods = [link[2] for link in links]
    return {
        "links": [(url, text) for url, text, _ in links],
        "lastmods": lastmods if any(lastmods) else (),
    }


def _links(value: Any) -> Sequence[tuple[str, str, str]]:
    """Return URL, text, and time of the last change of each link."""
    links = _is(value, list, "a list of objects with url and text")
    return [
        (_text(link["url"]), _text(link.get("text") or ""), _text(link.get("lastmod") or ""))
        for link in map(_object_of, links)
    ]


def _object_of(value: Any) -> dict[str, Any]:
    return _is(value, dict, "an object")


def _as_sent(value: Any) -> AsSent | None:
    """Return a response as its site sent it; None if its body was left out."""
    sent = _object_of(value)
    head, body = _text(sent.get("head")).encode("latin-1"), sent.get("body")
    if sent.get("body_left_out"):
        return None
    return AsSent(head, None if body is None else _base64(body))


def _base64(value: Any) -> bytes:
    return b64decode(_text(value), validate=True)


def _time(value: Any) -> datetime:
    """Return an aware time from naive UTC, in the years that all output formats support."""
    at = datetime.fromisoformat(_text(value))
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    if not 1970 <= at.year < 2262:
        raise ValueError("expected a year from 1970 to 2261")
    return at


_BY_TYPE: Mapping[Any, Callable[[Any], Any]] = {
    str: _text,
    int: _whole,
    bool: _flag,
    datetime: _time,
    Sequence[str]: _texts,
    TextHeaders: _headers,
    Mapping[str, object]: _object,
    AsSent: _as_sent,
    bytes: _base64,
}
_READERS = {
    **{
        name: _BY_TYPE[field.type]
        for name, field in PAGE_FIELDS.items()
        if name not in {"body", "body_size", "encoding", "links", "lastmods", "extra"}
    },
    **dict.fromkeys(("id", "appid", "crawlid", "spiderid"), _name),
    "response_url": _of_the_web,
}
"""Functions that read the fields of a record, except those of the body and of the links."""

_SECRETS = {
    "request_headers": frozenset({"authorization", "cookie", "proxy-authorization"}),
    "response_headers": frozenset({"set-cookie", "set-cookie2"}),
}


def without_secrets(value: bytes, page: Delivered) -> tuple[bytes, Delivered]:
    """Return a result without headers that contain credentials: its record, and the decoded page.

    If there are none, return both arguments unchanged.
    """
    kept = {field: _without(getattr(page, field), names) for field, names in _SECRETS.items()}
    if all(len(kept[field]) == len(getattr(page, field)) for field in kept):
        return value, page
    record, sent = _parsed(value) | kept, page.as_sent
    if as_sent := record.get("as_sent"):
        as_sent["head"] = head_without(as_sent["head"], _SECRETS["response_headers"].__contains__)
        sent = sent and replace(sent, head=as_sent["head"].encode("latin-1"))
    bare = replace(
        page,
        request_headers=kept["request_headers"],
        response_headers=kept["response_headers"],
        as_sent=sent,
    )
    return jsontext.dumps(record), bare


def head_without(head: str, is_secret: Callable[[str], object]) -> str:
    """Return a head without the headers whose lower-case names are secret."""
    first, *headers = _HEADERS.findall(head) or [""]
    kept = (line for line in headers if not is_secret(line.partition(":")[0].strip().lower()))
    return "".join((first, *kept))


def _without(headers: TextHeaders, names: Collection[str]) -> dict[str, Sequence[str]]:
    return {name: headers[name] for name in headers if name.lower() not in names}
