"""Entries as the frontier keeps them, and the profiles that they name."""

from __future__ import annotations

import re
from hashlib import blake2b

from crawlstream.model.crawl import Profile
from crawlstream.wire import stored
from crawlstream_frontier.codec.decode_cache import DecodeCache

_HEADER = re.compile(rb"([0-9]+)(?:,|;(...))", re.DOTALL)
"""Of a kept entry: its profile's number, and its marks if any; see ``lua/includes/holds.lua``."""
_MARK_ZERO = 33

_PROFILES = DecodeCache(stored.decode_profile, most_bytes=2 << 20)
"""The largest that a client can make, or thousands of usual ones; decoded, they may take thirty
times as much."""


def profile_from(packed: bytes) -> Profile:
    """The profile stored under a number; an empty one where it is gone."""
    return _PROFILES(packed) if packed else Profile()


def hash_of_profile(packed: bytes) -> str:
    """The name of a profile: 64 bits of a hash of its text, as hexadecimal digits."""
    return blake2b(packed, digest_size=8).hexdigest()


def header_of(entry: bytes) -> bytes:
    """What stands before the body of a kept entry; nothing where it is none."""
    header = _HEADER.match(entry)
    return header[0] if header else b""


def split_entry(entry: bytes) -> tuple[int, int, bytes]:
    """Header and body of a kept entry: retries, profile number, body."""
    header = _HEADER.match(entry)
    if not header:
        raise ValueError(f"not a stored entry: {entry[:40]!r}")
    number, marks = header.groups()
    return marks[0] - _MARK_ZERO if marks else 0, int(number), entry[header.end() :]
