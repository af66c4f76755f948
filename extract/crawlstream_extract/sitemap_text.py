"""The text of a sitemap or feed, from the bytes that came: unpacked and in UTF-8, in pieces.

Its charset is what the bytes show, and what the file declares only where the bytes do not disprove
it, by the labels of the Encoding Standard.
"""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import webencodings

MOST_UNPACKED = 50 << 20
"""Bytes of one file, unpacked, as sitemaps.org has it."""
MOST_PARTS = 64
"""Gzip members of one file: most have one, and those that are joined of others some dozens."""
PIECE = 1 << 16
"""Bytes of a piece, about; only the first one of a small file is smaller."""

MOST_DOCUMENTS = 1_000
"""Joined to one file: each has an XML declaration and a root element at most."""

_GZIP = b"\x1f\x8b"
_UTF_16 = {
    codecs.BOM_UTF16_LE: "utf-16le", b"<\0": "utf-16le",
    codecs.BOM_UTF16_BE: "utf-16be", b"\0<": "utf-16be",
}  # fmt: skip
_DECLARED = re.compile(rb"<\?xml\s[^>]{0,200}?encoding\s*=\s*[\"']([^\"'>]{1,40})[\"']")
_BEGINNING = re.compile(
    rb"<\?xml\s|<(?:[A-Za-z][\w.-]{0,30}:)?(?:urlset|sitemapindex|rss|feed|RDF)[\s>/]"
)
_AMPERSAND = re.compile(rb"&(?!(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#x[0-9A-Fa-f]{1,6});)")
_MOST_OPEN = 128
"""Tags that begin before one ends. XML has none; the parser looks for the end of each, as far as it
takes."""
_LONG_TAG = re.compile(rb"<[^>]{%d,}+" % (2 * _MOST_OPEN))
_LONGEST_TOKEN = 48
"""Bytes of an entity, or of how a document begins; a piece does not end within one."""


class CutShort(Exception):
    """The rest of a file is not read, and why."""


def text_of(body: bytes) -> Iterator[bytes]:
    """Return the text of a file in pieces; CutShort where it cannot be read further."""
    pieces = _in_large_pieces(_unpacked(body))
    head = next(pieces, b"")
    codec = _codec_of(head)
    pieces = chain((head,), pieces)
    return pieces if codec is None else _recoded(pieces, codec)


def beginning_of(head: bytes) -> int | None:
    """Return where the markup begins in the first piece of a text; None where it is none.

    Programs that make sitemaps write warnings before them.
    """
    if found := _BEGINNING.search(head):
        return found.start()
    return 0 if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<") else None


def as_xml(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Return the pieces with every ampersand as XML would have it."""
    kept = b""
    for piece in pieces:
        piece = kept + piece  # noqa: PLW2901
        at = max(piece.rfind(mark, -_LONGEST_TOKEN) for mark in (b"&", b"<"))
        piece, kept = (piece, b"") if at < 0 else (piece[:at], piece[at:])  # noqa: PLW2901
        yield _AMPERSAND.sub(b"&amp;", piece)
    yield _AMPERSAND.sub(b"&amp;", kept)


def closed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Return the pieces as far as their tags end; CutShort behind that."""
    open_tags = 0
    for piece in pieces:
        first, last = piece.find(b">"), piece.rfind(b">")
        open_tags += piece.count(b"<", 0, first if first >= 0 else len(piece))
        heaps = (tag for tag in _LONG_TAG.finditer(piece) if tag[0].count(b"<") > _MOST_OPEN)
        heap = next(heaps, None)
        if open_tags > _MOST_OPEN or heap:
            yield piece[: heap.start() if heap else 0]
            raise CutShort("its tags do not end")
        yield piece
        if last >= 0:
            open_tags = piece.count(b"<", last)


def documents_of(pieces: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Return the pieces, divided where a document may begin, and whether each begins so.

    Such a piece begins another document if the one before has ended. CutShort where there are too
    many: each wants a parser of its own.
    """
    beginnings = 0
    for piece in pieces:
        at, may_begin = 0, False
        for found in _BEGINNING.finditer(piece):
            yield piece[at : found.start()], may_begin
            at, may_begin = found.start(), True
            beginnings += 1
            if beginnings > 2 * MOST_DOCUMENTS:
                raise CutShort(f"it is joined of more than {MOST_DOCUMENTS} documents")
        yield piece[at:], may_begin


def lines_of(pieces: Iterable[bytes], longest: int) -> Iterator[str]:
    """Return the lines of a text without white space around them; a longer one is left out."""
    kept = b""
    for piece in chain(pieces, (b"\n",)):
        *whole, kept = (kept + piece).replace(b"\r", b"\n").split(b"\n")
        for line in whole:
            if len(line) <= longest:
                yield line.decode("utf-8", "replace").strip("\ufeff \t\f")
        kept = kept[: longest + 1]


def _in_large_pieces(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Join small pieces; pieces before an error are not lost by that."""
    kept = b""
    try:
        for piece in pieces:
            kept += piece
            if len(kept) >= PIECE:
                yield kept
                kept = b""
    except CutShort:
        yield kept
        raise
    yield kept


def _codec_of(head: bytes) -> Any:
    """Return the codec that reads a file; None for UTF-8, which needs none."""
    if utf_16 := _UTF_16.get(head[:2]):
        return webencodings.lookup(utf_16).codec_info
    if head.startswith(codecs.BOM_UTF8):
        return None
    declared = _DECLARED.search(head)
    found = webencodings.lookup(declared[1].decode("latin-1")) if declared else None
    # Text that was readable as ASCII cannot be UTF-16.
    if found is not None and found.name not in {"utf-8", "utf-16le", "utf-16be"}:
        return found.codec_info
    return None if _is_utf8(head) else codecs.lookup("windows-1252")


def _is_utf8(head: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _recoded(pieces: Iterable[bytes], codec: Any) -> Iterator[bytes]:
    decoder = codec.incrementaldecoder("replace")
    for piece in pieces:
        yield decoder.decode(piece).encode("utf-8", "replace")
    yield decoder.decode(b"", final=True).encode("utf-8", "replace")


def _unpacked(body: bytes) -> Iterator[bytes]:
    """The file in pieces, unpacked if it is gzip."""
    if not body.startswith(_GZIP):
        for start in range(0, min(len(body), MOST_UNPACKED), PIECE):
            yield body[start : start + PIECE]
        if len(body) > MOST_UNPACKED:
            raise CutShort(f"it is longer than {MOST_UNPACKED} bytes")
        return
    room = MOST_UNPACKED
    for _ in range(MOST_PARTS):
        member = zlib.decompressobj(16 + zlib.MAX_WBITS)
        for piece in _pieces_of(member, body):
            if (room := room - len(piece)) < 0:
                raise CutShort(f"it is longer than {MOST_UNPACKED} bytes, unpacked")
            yield piece
        body = member.unused_data
        if not body.startswith(_GZIP):
            return
    raise CutShort(f"it is compressed in more than {MOST_PARTS} parts")


def _pieces_of(member: Any, body: bytes) -> Iterator[bytes]:
    try:
        while body and not member.eof:
            yield member.decompress(body, PIECE)
            body = member.unconsumed_tail
    except zlib.error as error:
        raise CutShort(f"it cannot be unpacked: {error}") from error
    if not member.eof:
        raise CutShort("it ends amid what is packed")
