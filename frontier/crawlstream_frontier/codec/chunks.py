"""Chunks: compressed entries of one band, as they are stored on the shelf.

A value is a zstd frame of a packed list: version, the chunk's id, and three columns. The columns
have, for each entry, its profile number with its marks, the part before its text, and its text.
The text has one byte per character, because text of six bits per character does not compress.
An entry that this split would change is stored unchanged.
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
"""Maximum size of an unpacked chunk; a few hundred entries are much smaller."""

_packer = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
_unpacker = zstandard.ZstdDecompressor()


def pack_chunk(id_: bytes, entries: Sequence[bytes]) -> bytes:
    """Return entries as a value for the shelf."""
    columns = zip(*map(_split, entries), strict=True)
    return _packer.compress(pack([_VERSION, id_, *map(list, columns)]))


def unpack_chunk(id_: bytes, value: bytes) -> list[bytes]:
    """Return the entries; ValueError if the value is not the chunk with this id."""
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
    """Return header, part before the text, and text.

    Bytes that cannot be split and joined again without a change are all in the first.
    """
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
