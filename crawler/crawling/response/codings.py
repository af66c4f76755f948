"""Content codings: whether a body is packed, or its header only says something odd.

A status that says enough is acted on before the body is decoded: the target of a redirect, or the
time of the next attempt, does not depend on a body that is not read.
"""

from __future__ import annotations

from collections.abc import Sequence

from scrapy.http import Response, TextResponse

from crawling.decoding import decoded
from crawling.failures import BadEncoding
from crawling.response.media_type import class_of
from crawlstream.model.statuses import RETRIED

_CODINGS = frozenset(
    {b"aes128gcm", b"br", b"compress", b"dcb", b"dcz", b"deflate", b"exi", b"gzip"}
    | {b"pack200-gzip", b"x-compress", b"x-gzip", b"zstd"}
)
"""IANA's registry, but for ``identity``."""


MOST_CODINGS = 2
"""Codings on top of each other; more are a mistake, and each is unpacked to full size."""


INCOMPLETE = "incomplete"
"""Flag of a response whose body ends before the end that its coding marks."""


class Undecoded(Response):
    """A response that is for its status alone: its body cannot be decompressed."""

    problem: Exception = BadEncoding("the body cannot be decompressed")
    """Why the page fails if the status does not say what becomes of it after all."""


def is_status_enough(status: int, *, is_robots: bool) -> bool:
    """Return whether a status may be acted on without a body.

    Redirects and refusals that pass; of a robots.txt also that there is none (RFC 9309, 2.3.1.3).
    """
    return status // 100 == 3 or status in RETRIED or (is_robots and status // 100 != 2)


def undecoded(response: Response, problem: Exception) -> Undecoded:
    """Return a response for its status alone."""
    found = Undecoded(**{name: getattr(response, name) for name in Response.attributes})
    # Without the frames, and what they hold.
    found.problem = problem.with_traceback(None)
    return found


def codings_of(response: Response) -> Sequence[bytes]:
    """Return the content codings of a body; empty if the header has none that is registered.

    If one name is registered with IANA, the others count as well.
    """
    said = b",".join(response.headers.getlist(b"Content-Encoding")).lower()
    names = [name for each in said.split(b",") if (name := each.strip()) not in {b"", b"identity"}]
    return () if _CODINGS.isdisjoint(names) else names


def without_codings(response: Response, codings: Sequence[bytes], most: int) -> Response:
    """Return a response with its body decompressed, in ``most`` bytes; BadEncoding, TooLarge.

    It has the flag ``INCOMPLETE`` if the body breaks off.
    """
    body, left, is_whole = decoded(response.body, codings, most)
    headers = response.headers.copy()
    if left:
        headers[b"Content-Encoding"] = left
    else:
        del headers[b"Content-Encoding"]
    kind = class_of(headers, response.url, body)
    flags = response.flags if is_whole else [*response.flags, INCOMPLETE]
    # Forget the charset that was guessed from the compressed bytes.
    guess = {"encoding": None} if issubclass(kind, TextResponse) else {}
    return response.replace(cls=kind, body=body, headers=headers, flags=flags, **guess)


def unpacked(response: Response) -> Response:
    """Return a response whose header names no coding without that header.

    Scrapy takes ``utf-8`` or ``none`` for a coding; browsers ignore such a name.
    """
    headers = response.headers.copy()
    del headers[b"Content-Encoding"]
    return response.replace(cls=class_of(headers, response.url, response.body))
