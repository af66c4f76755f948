"""The media type of a response: the Fetch Standard's *extract a MIME type*.

A proxy may have merged two ``Content-Type`` headers into one; a browser reads such a list, and two
headers, in the same way: the last type that can be read counts, and it inherits the charset of an
earlier one of the same kind. See https://fetch.spec.whatwg.org. Where no type is given, the body
says whether it is a page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from scrapy.http import Headers, HtmlResponse, Response, XmlResponse
from scrapy.responsetypes import responsetypes

from crawlstream.model.delivered import is_xhtml

_REMEMBERED = 4096
_LONGEST = 4096
"""Bytes of a header that are read; sites send shorter ones."""

_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_ESSENCE = re.compile(rf"[ \t\r\n]*({_NAME}/{_NAME})[ \t\r\n]*(?=;|\Z)")
_VALUES = re.compile(r'(?:[^",]|"(?:[^"\\]|\\.)*(?:"|\Z))+', re.DOTALL)
"""The values of a list; a comma between quotes separates nothing."""
_PARAMETER = re.compile(
    rf';[ \t\r\n]*({_NAME})=(?:"((?:[^"\\]|\\.)*)(?:"|\Z)|([^;"]*))[^;]*', re.DOTALL
)

_UNKNOWN = frozenset({"", "application/unknown", "unknown/unknown"})
_PAGE = re.compile(
    rb"[\t\n\f\r ]{0,1024}(?:<!--|<(?:!doctype html|html|head|script|iframe|h1|div|font|table|a"
    rb"|style|title|b|body|br|p)[ >])",
    re.IGNORECASE,
)
"""How a page begins, by the MIME Sniffing Standard (https://mimesniff.spec.whatwg.org)."""


class MediaType(NamedTuple):
    """Type of the body of a response."""

    essence: str
    """Type and subtype, in lower case; empty where no header can be read."""
    charset: str
    """The label of its charset, as it is written; empty without one."""


def media_type(headers: Headers) -> MediaType:
    """Return the media type that the headers of a response give."""
    said = dict.get(headers, b"Content-Type")
    if not said:
        return _NONE
    return _read(said[0] if len(said) == 1 else b",".join(said))


def class_of(headers: Headers, url: str, body: bytes) -> type[Response]:
    """Return Scrapy's class for a response; that of XHTML is HTML's, whatever the server calls it.

    The class is cached by type: looking it up takes as long as making the response.
    """
    kind = _class_of(headers, url, body)
    return HtmlResponse if kind is XmlResponse and is_xhtml(body) else kind


def typed(response: Response) -> Response:
    """Return the response of Scrapy's own client in the class that it has by :func:`class_of`."""
    kind = class_of(response.headers, response.url, response.body)
    if type(response) is kind:
        return response
    return kind(**{name: getattr(response, name) for name in Response.attributes})


def _class_of(headers: Headers, url: str, body: bytes) -> type[Response]:
    essence = media_type(headers).essence
    if essence and b"Content-Encoding" not in headers:
        kind = _class_of_type(essence)
        if kind is not Response:
            return kind
    if essence in _UNKNOWN and _PAGE.match(body):
        return HtmlResponse
    return responsetypes.from_args(headers=headers, url=url, body=body)


@lru_cache(_REMEMBERED)
def _class_of_type(essence: str) -> type[Response]:
    return responsetypes.from_mimetype(essence)


@lru_cache(_REMEMBERED)
def _read(header: bytes) -> MediaType:
    found = _NONE
    for essence, charset in _types_of(header[:_LONGEST].decode("latin-1")):
        kept = found.charset if essence == found.essence else ""
        found = MediaType(essence, charset or kept)
    return found


def _types_of(text: str) -> Iterator[MediaType]:
    for value in _VALUES.findall(text):
        match = _ESSENCE.match(value)
        if match and match[1] != "*/*":
            yield MediaType(match[1].lower(), _charset_of(value[match.end() :]))


def _charset_of(parameters: str) -> str:
    """Return the first charset among the parameters of a type, without its quotes."""
    for name, quoted, plain in _PARAMETER.findall(parameters):
        if name.lower() == "charset":
            return re.sub(r"\\(.)", r"\1", quoted) or str(plain).strip()
    return ""


_NONE = MediaType("", "")
