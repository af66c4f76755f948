"""Compression of record batches: the codecs, and limits on the size of a batch when unpacked.

Batches of other producers are unpacked in pieces, each of a bounded size, so that a reader can stop
at its limit: two kilobytes of zstd can expand to a hundred megabytes.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

import lz4.frame
import snappy
import zstandard
from isal import isal_zlib
from kafka.errors import CorruptRecordError
from kafka.record import default_records

Codec = Literal["none", "gzip", "lz4", "snappy", "zstd"]
"""Every client of Kafka reads ``none`` and ``gzip``; many need a package of their own for more."""

PIECE_BYTES = 1024 * 1024
MOST_PIECES = 1 << 14
"""Maximum number of pieces in one batch.

Even an empty gzip member or snappy block is a piece, and takes time.
"""

_GZIP_LEVEL = 2
"""Level of ISA-L: twenty times as fast as zlib's 9, kafka-python's choice, for a tenth more
bytes."""
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_STEP_BYTES = 32 * 1024
_WINDOW_BYTES = 32 * 1024 * 1024
"""Largest window of a zstd stream that is accepted; only the ultra levels use larger ones."""

_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_SNAPPY_BLOCK_BYTES = 32 * 1024 * 1024
_SNAPPY_SWELLS = 64
"""Times that a snappy block can be larger than what it is made of; a larger claim is a lie."""


class PieceTooLarge(Exception):
    """A piece that cannot be had without more memory than a batch is worth."""


def compress_lightly() -> None:
    """Have kafka-python's gzip be one that fits a hot path; it has no setting for that."""
    default_records.gzip_encode = _gzip


def _gzip(payload: bytes) -> bytes:
    packer = isal_zlib.compressobj(_GZIP_LEVEL, isal_zlib.DEFLATED, _GZIP_WINDOW)
    return bytes(packer.compress(payload) + packer.flush())


def pieces(codec: int, data: bytes) -> Iterator[bytes]:
    """Yield the content of a batch piece by piece; ``codec`` is the number in its attributes.

    CorruptRecordError if the bytes are invalid, TooLarge if a piece exceeds the limit.
    """
    unpack = _UNPACKERS.get(codec)
    if unpack is None:
        raise CorruptRecordError(f"unknown compression codec {codec}")
    try:
        yield from _bounded(unpack(data))
    except zstandard.ZstdError as error:
        # The library has no code for it.
        if "its decompression needs too much memory" in str(error):
            raise PieceTooLarge from error
        raise CorruptRecordError(f"cannot decompress a record batch: {error}") from error
    except (zlib.error, RuntimeError, EOFError, snappy.UncompressError, struct.error) as error:
        raise CorruptRecordError(f"cannot decompress a record batch: {error}") from error


def _bounded(found: Iterator[bytes]) -> Iterator[bytes]:
    for number, piece in enumerate(found):
        if number == MOST_PIECES:
            raise EOFError(f"more than {MOST_PIECES} pieces")
        yield piece


def _gunzip(data: bytes) -> Iterator[bytes]:
    view, at = memoryview(data), 0
    while at < len(view):
        member, is_over = zlib.decompressobj(_GZIP_WINDOW), False
        while not is_over:
            # In short steps: what is left of one is copied.
            step = view[at : at + _STEP_BYTES]
            piece = member.decompress(step, PIECE_BYTES)
            is_over = member.eof
            # At the end of a member zlib leaves the rest in both.
            at += len(step) - len(member.unused_data if is_over else member.unconsumed_tail)
            if piece or is_over:
                yield piece
            elif not step:
                raise EOFError("truncated gzip data")


def _unlz4(data: bytes) -> Iterator[bytes]:
    frame: Any = lz4.frame.LZ4FrameDecompressor()
    piece = frame.decompress(data, PIECE_BYTES)
    while piece or not frame.eof:
        if not piece and frame.needs_input:
            raise EOFError("truncated lz4 data")
        yield piece
        piece = b"" if frame.eof else frame.decompress(b"", PIECE_BYTES)


def _unzstd(data: bytes) -> Iterator[bytes]:
    unpacker = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES)
    with unpacker.stream_reader(io.BytesIO(data), read_across_frames=True) as reader:
        yield from iter(partial(reader.read, PIECE_BYTES), b"")


def _unsnappy(data: bytes) -> Iterator[bytes]:
    if not data.startswith(_XERIAL):
        yield _unsnappy_block(data)
        return
    pos = _XERIAL_HEADER_BYTES
    while pos < len(data):
        (size,) = struct.unpack_from("!i", data, pos)
        pos += 4
        if size < 0:
            raise EOFError("a snappy block has a negative size")
        yield _unsnappy_block(data[pos : pos + size])
        pos += size


def _unsnappy_block(block: bytes) -> bytes:
    """It is had as a whole or not at all; its beginning says how large it is."""
    size = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(_varint(block)))
    if size > _SNAPPY_SWELLS * len(block):
        raise EOFError(f"a snappy block of {len(block)} bytes cannot contain {size} bytes")
    if size > _SNAPPY_BLOCK_BYTES:
        raise PieceTooLarge
    return bytes(snappy.uncompress(block))


def _varint(block: bytes) -> bytes:
    for place, byte in enumerate(block[:5]):
        if byte < 0x80:
            return block[: place + 1]
    raise EOFError("a snappy block has no size")


_UNPACKERS = {1: _gunzip, 2: _unsnappy, 3: _unlz4, 4: _unzstd}
