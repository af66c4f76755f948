"""Chunks: entries of one band as the shelf has them, compressed.

A value is a zstd frame of a packed list: version, the chunk's id, and three columns: of each entry
the number of its profile with its marks, what stands before its text, and its text with a character
a byte, for six bits a character would leave nothing to compress. An entry that this would change is
kept as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import zstandard

from crawlstream.wire import stored
from crawlstream_frontier.codec.entries import header_of
from crawlstream_frontier.codec.values import pack, unpack

_VERSION = 1
_LEVEL = 6
_MOST_BYTES = 64 << 20
"""Of a chunk that is unpacked: a few hundred entries have far less."""

_packer = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
_unpacker = zstandard.ZstdDecompressor()


def pack_chunk(id_: bytes, entries: Sequence[bytes]) -> bytes:
    """Entries as a value for the shelf."""
    columns = zip(*map(_split, entries), strict=True)
    return _packer.compress(pack([_VERSION, id_, *map(list, columns)]))


def unpack_chunk(id_: bytes, value: bytes) -> list[bytes]:
    """The entries; ValueError for anything but the chunk of this id."""
    try:
        size = zstandard.get_frame_parameters(value).content_size
        fields = unpack(_unpacker.decompress(value)) if 0 < size <= _MOST_BYTES else ()
        head, columns = tuple(fields[:2]), fields[2:]
        entries = [_join(*parts) for parts in zip(*columns, strict=True)]
    except Exception as error:
        raise ValueError(f"not a chunk: {error}") from error
    if head != (_VERSION, id_):
        raise ValueError(f"not chunk {id_!r} of version {_VERSION}: {head}")
    return entries


def _split(entry: bytes) -> tuple[bytes, bytes, bytes]:
    """Header, what stands before the text, text; all in the first where it is no entry of ours."""
    header = header_of(entry)
    try:
        parts = (header, *stored.split_text(entry[len(header) :]))
        if header and parts[1] and _join(*parts) == entry:
            return parts
    except ValueError:
        pass
    return entry, b"", b""


def _join(header: bytes, head: bytes, text: bytes) -> bytes:
    return header + stored.join_text(head, text) if head else header
