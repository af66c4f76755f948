"""Decode content codings within a budget of bytes and of parts.

A limit on the output is not enough: parts without output (empty gzip members, empty or skippable
zstd frames) cost time each, and a second coding packs millions of them into a kilobyte. A body
that is cut short, or breaks off amid the data, is delivered as far as it goes, as browsers do,
and marked as incomplete.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, cast

import brotli  # type: ignore[import-untyped]
from backports import zstd
from isal import isal_zlib

from crawling.failures import BadEncoding, TooLarge

MOST_PARTS = 64
"""Gzip members or zstd frames of one body: pages have one, and log rotation some dozens."""

_PIECE, _SMALL_PIECE = 1 << 16, 1 << 13
_GZIP, _ZLIB, _RAW = 31, 15, -15
"""Window sizes of zlib, which also select the format around the data."""
_LARGEST_WINDOW = 23
"""Binary logarithm of the largest zstd window: 8 MiB, the limit of RFC 9659 for HTTP."""
_ZSTD_OPTIONS = {int(zstd.DecompressionParameter.window_log_max): _LARGEST_WINDOW}

_IsalError = cast(type[Exception], isal_zlib.error)
"""The stub declares the class as an instance, hence the cast."""

_Stream = Any
"""A decompressor of one part: ``decompress(data, max_length)``, ``eof``, ``unused_data``."""


class Decoded(NamedTuple):
    """A body without its codings."""

    body: bytes
    left: Sequence[bytes]
    """Codings left on the body: unknown ones, and all that were applied before them."""
    is_whole: bool
    """True if the data reached the end that its coding marks."""


_Part = tuple[bytes, bool]
"""Result of one coding: the body, and whether it is complete."""


def decoded(body: bytes, codings: Sequence[bytes], most: int) -> Decoded:
    """Return a body without its codings.

    ``codings`` stand in the order in which they were applied, ``most`` is in bytes. BadEncoding
    where the data is not what its coding says, or of too many parts; TooLarge.
    """
    left, is_whole = list(codings), True
    while left and (decode := _DECODERS.get(left[-1])):
        body, is_complete = decode(body, most)
        if not body and not is_complete:
            raise BadEncoding("the compressed body ends before anything of it can be read")
        is_whole = is_whole and is_complete
        left.pop()
    return Decoded(body, left, is_whole)


def _gunzip(body: bytes, most: int) -> _Part:
    """Return the content of all members of gzip data; other data behind them is ignored."""
    try:
        return _all_parts(body, most, lambda: isal_zlib.decompressobj(wbits=_GZIP), b"\x1f\x8b")
    except _IsalError as error:
        return _salvaged(isal_zlib.decompressobj(wbits=_GZIP), body, most, error)


def _inflate(body: bytes, most: int) -> _Part:
    """Undo ``deflate``, with the frame of zlib or, as some servers send it, without."""
    for window in (_ZLIB, _RAW):
        stream = isal_zlib.decompressobj(wbits=window)
        try:
            return _part(stream, body, most), _has_ended(stream, body)
        except _IsalError as error:
            problem = error
    return _salvaged(isal_zlib.decompressobj(wbits=_ZLIB), body, most, problem)


def _unzstd(body: bytes, most: int) -> _Part:
    try:
        return _all_parts(body, most, lambda: zstd.ZstdDecompressor(options=_ZSTD_OPTIONS), b"")
    except zstd.ZstdError as error:
        raise BadEncoding(str(error)) from error


def _unbrotli(body: bytes, most: int) -> _Part:
    stream = brotli.Decompressor()
    pieces: list[bytes] = []
    room, data = most, body
    try:
        while piece := stream.process(data, output_buffer_limit=room + 1):
            pieces.append(piece)
            room, data = _room(room, piece, most), b""
            if stream.is_finished():
                break
    except brotli.error as error:
        if not pieces:
            raise BadEncoding(str(error)) from error
    return b"".join(pieces), not body or stream.is_finished()


def _all_parts(body: bytes, most: int, begin: Callable[[], _Stream], mark: bytes) -> _Part:
    """Return the content of all parts; each begins with ``mark``."""
    parts: list[bytes] = []
    room = most
    for _ in range(MOST_PARTS):
        stream = begin()
        part = _part(stream, body, room)
        parts.append(part)
        is_whole = _has_ended(stream, body)
        room, body = room - len(part), stream.unused_data if stream.eof else b""
        if not body or not body.startswith(mark):
            return b"".join(parts) if len(parts) > 1 else part, is_whole
    raise BadEncoding(f"the body is compressed in more than {MOST_PARTS} parts")


def _part(stream: _Stream, body: bytes, room: int) -> bytes:
    """Return the content of one part, usually in one piece."""
    pieces = [stream.decompress(body, room + 1)]
    left = _room(room, pieces[0], room)
    while not stream.eof and (data := _unread(stream)) is not None:
        piece = stream.decompress(data, min(_PIECE, left + 1))
        if not piece and not data:
            break
        left = _room(left, piece, room)
        pieces.append(piece)
    return b"".join(pieces) if len(pieces) > 1 else bytes(pieces[0])


def _has_ended(stream: _Stream, body: bytes) -> bool:
    """Return whether a part is complete; an empty body counts as complete."""
    return not body or bool(stream.eof)


def _salvaged(stream: _Stream, body: bytes, room: int, error: Exception) -> _Part:
    """Return the output before the data breaks off; raise BadEncoding if there is none."""
    pieces: list[bytes] = []
    with suppress(_IsalError):
        while not stream.eof:
            pieces.append(stream.decompress(body, _SMALL_PIECE))
            room, body = _room(room, pieces[-1], room), bytes(stream.unconsumed_tail)
            if not pieces[-1] and not body:
                break
    if not any(pieces):
        raise BadEncoding(str(error)) from error
    return b"".join(pieces), False


def _unread(stream: _Stream) -> bytes | None:
    """Return the next input of a decompressor; None if it has had all data."""
    if isinstance(stream, zstd.ZstdDecompressor):
        return None if stream.needs_input else b""
    return bytes(stream.unconsumed_tail)


def _room(room: int, piece: bytes, most: int) -> int:
    if len(piece) > room:
        raise TooLarge(f"the body has more than {most} bytes when it is decompressed")
    return room - len(piece)


_DECODERS: Mapping[bytes, Callable[[bytes, int], _Part]] = {
    b"br": _unbrotli,
    b"deflate": _inflate,
    b"gzip": _gunzip,
    b"x-gzip": _gunzip,
    b"zstd": _unzstd,
}
