"""Content codings: whether a body is packed, or its header only says something odd."""

from __future__ import annotations

from collections.abc import Sequence

from scrapy.http import Response, TextResponse
from scrapy.responsetypes import responsetypes

from crawling.decoding import decoded

_CODINGS = frozenset(
    {b"aes128gcm", b"br", b"compress", b"dcb", b"dcz", b"deflate", b"exi", b"gzip"}
    | {b"pack200-gzip", b"x-compress", b"x-gzip", b"zstd"}
)
"""IANA's registry, but for ``identity``."""


MOST_CODINGS = 2
"""So many on top of each other are somebody's mistake; each more is unpacked to full size."""


def codings_of(response: Response) -> Sequence[bytes]:
    """What its header says was done to the body; empty: nothing, or nothing that has a name.

    One name that IANA knows makes the others count as well.
    """
    said = b",".join(response.headers.getlist(b"Content-Encoding")).lower()
    names = [name for each in said.split(b",") if (name := each.strip()) not in {b"", b"identity"}]
    return () if _CODINGS.isdisjoint(names) else names


def without_codings(response: Response, codings: Sequence[bytes], most: int) -> Response:
    """Return a response with its body decompressed, in ``most`` bytes; BadEncoding, TooLarge."""
    body, left = decoded(response.body, codings, most)
    headers = response.headers.copy()
    if left:
        headers[b"Content-Encoding"] = left
    else:
        del headers[b"Content-Encoding"]
    kind = responsetypes.from_args(headers=headers, url=response.url, body=body)
    # What a class of text has guessed of the compressed bytes is forgotten.
    guess = {"encoding": None} if issubclass(kind, TextResponse) else {}
    return response.replace(cls=kind, body=body, headers=headers, **guess)


def unpacked(response: Response) -> Response:
    """One that is not packed as what it is; Scrapy takes ``utf-8`` or ``none`` for a coding.

    Browsers pass such a name over.
    """
    headers = response.headers.copy()
    del headers[b"Content-Encoding"]
    kind = responsetypes.from_args(headers=headers, url=response.url, body=response.body)
    return response.replace(cls=kind)
