"""Text of a page as a memory keeps it, so that the next one can be compared with it by lines."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import zstandard

MOST_BYTES = 64 * 1024
"""Bytes of a text that are kept, in UTF-8."""
_LEVEL = 3


class KeptText(NamedTuple):
    """Text of a page, or its beginning."""

    signature: str
    """Differs between two different texts."""
    text: str
    is_whole: bool


def text_of(found: str) -> KeptText:
    """Return a text as it is kept: of a long one the whole lines at its beginning."""
    octets = found.encode("utf-8", "replace")
    is_whole = len(octets) <= MOST_BYTES
    if not is_whole:
        end = octets.rfind(b"\n", 0, MOST_BYTES)
        octets = octets[: MOST_BYTES if end < 0 else end]
    kept = octets.decode("utf-8", "ignore")
    name = hashlib.blake2b(kept.encode(), digest_size=16, person=b"" if is_whole else b"cut")
    return KeptText(name.hexdigest(), kept, is_whole)


def pack(text: KeptText) -> bytes:
    """Return the text compressed."""
    return zstandard.ZstdCompressor(level=_LEVEL).compress(text.text.encode())


def unpack(signature: str, packed: bytes, *, is_whole: bool) -> KeptText:
    """Return a text that was packed."""
    octets = zstandard.ZstdDecompressor().decompress(packed, max_output_size=MOST_BYTES)
    return KeptText(signature, octets.decode(), is_whole)
