"""The charset of a page that does not tell its own."""

from __future__ import annotations

from scrapy.http import Response, TextResponse
from w3lib.encoding import html_body_declared_encoding, http_content_type_encoding, read_bom

_FALLBACK = "cp1252"
"""What browsers in most places assume, and what clients have always been told."""


def with_charset(response: Response) -> Response:
    """The response, its charset settled where Scrapy would guess.

    The guess is by statistics: it takes seconds for a large page, and reads a short one in
    Western European as Korean.
    """
    if not isinstance(response, TextResponse) or _is_declared(response) or _is_utf8(response.body):
        return response
    return response.replace(encoding=_FALLBACK)


def _is_declared(response: TextResponse) -> bool:
    content_type = (response.headers.get(b"Content-Type") or b"").decode("latin-1")
    return bool(
        http_content_type_encoding(content_type)
        or read_bom(response.body)[0]
        or html_body_declared_encoding(response.body)
    )


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True
