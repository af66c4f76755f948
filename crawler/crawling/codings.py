"""Content codings: whether a body is packed, or its header only says something odd."""

from __future__ import annotations

from scrapy.http import Response
from scrapy.responsetypes import responsetypes

_CODINGS = frozenset(
    {b"aes128gcm", b"br", b"compress", b"dcb", b"dcz", b"deflate", b"exi", b"gzip"}
    | {b"pack200-gzip", b"x-compress", b"x-gzip", b"zstd"}
)
"""IANA's registry, but for ``identity``."""


def is_packed(response: Response) -> bool:
    """Whether its header names a coding."""
    said = b",".join(response.headers.getlist(b"Content-Encoding")).lower()
    return not _CODINGS.isdisjoint(map(bytes.strip, said.split(b",")))


def unpacked(response: Response) -> Response:
    """One that is not packed as what it is; Scrapy takes ``utf-8`` or ``none`` for a coding.

    Browsers pass such a name over.
    """
    headers = response.headers.copy()
    del headers[b"Content-Encoding"]
    kind = responsetypes.from_args(headers=headers, url=response.url, body=response.body)
    return response.replace(cls=kind)
