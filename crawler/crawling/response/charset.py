"""The charset of a page: what it declares if that is a charset of the web, else a plain choice."""

from __future__ import annotations

import codecs
import re

from scrapy.http import Response, TextResponse
from w3lib.encoding import html_body_declared_encoding, http_content_type_encoding, read_bom

_FALLBACK = "cp1252"
"""What browsers in most places assume, and what clients have always been told."""

_PIECE = 1 << 20
"""Bytes that are decoded at a time, only to see whether they can be: text may be four times as
large."""
_Utf8Decoder = codecs.getincrementaldecoder("utf-8")

_OF_THE_WEB = re.compile(
    r"ascii|big5(hkscs)?|cp(125[0-8]|866|874|932|949)|euc_(jp|kr)|gb(18030|2312|k)|hz|johab"
    r"|iso2022_(jp|kr)|iso8859-[0-9]+|koi8-[ru]|mac-(cyrillic|roman)|shift_jis[_x0-9]*|tis-620"
    r"|utf-(8(-sig)?|(16|32)(-[bl]e)?)"
)
"""Python's names of charsets; its other codecs fail on text or take hours (``punycode``)."""


def with_charset(response: Response) -> Response:
    """The response, its charset settled where Scrapy would guess or believe anything.

    The guess is by statistics: it takes seconds for a large page, and reads a short one in
    Western European as Korean.
    """
    if not isinstance(response, TextResponse):
        return response
    declared = _declared(response)
    if declared and _OF_THE_WEB.fullmatch(declared):
        return response
    if not _is_utf8(response.body):
        return response.replace(encoding=_FALLBACK)
    return response.replace(encoding="utf-8") if declared else response


def _declared(response: TextResponse) -> str | None:
    content_type = (response.headers.get(b"Content-Type") or b"").decode("latin-1")
    return (
        read_bom(response.body)[0]
        or http_content_type_encoding(content_type)
        or html_body_declared_encoding(response.body)
    )


def _is_utf8(body: bytes) -> bool:
    decoder = _Utf8Decoder()
    try:
        for start in range(0, len(body), _PIECE):
            decoder.decode(body[start : start + _PIECE])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True
