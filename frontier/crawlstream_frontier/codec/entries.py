"""Entries as the frontier stores them, and the profiles that they refer to."""

from __future__ import annotations

import re
from hashlib import blake2b

from crawlstream.model.crawl import Profile
from crawlstream.wire import stored
from crawlstream_frontier.codec.decode_cache import DecodeCache

_HEADER = re.compile(rb"([0-9]+)(?:,|;(...)|!(-?[0-9]+) ([^ ]*) ,)", re.DOTALL)
"""Header of a stored entry: profile number, and marks if any; see ``lua/includes/holds.lua``. In a
band it may have a fingerprint, and a domain; see ``lua/includes/inlinks.lua``."""
_MARK_ZERO = 33

_PROFILES = DecodeCache(stored.decode_profile, most_bytes=2 << 20)
"""Room for the largest profile that a client can send, or for thousands of usual ones. Decoded,
they may take thirty times as much memory."""


def profile_from(packed: bytes) -> Profile:
    """Return the profile stored under a number; an empty one if it is gone."""
    return _PROFILES(packed) if packed else Profile()


def hash_of_profile(packed: bytes) -> str:
    """Return the name of a profile: 64 bits of a hash of its text, as hexadecimal digits."""
    return blake2b(packed, digest_size=8).hexdigest()


def header_of(entry: bytes) -> bytes:
    """Return the header before the body of a stored entry; empty if it is not a stored entry."""
    header = _HEADER.match(entry)
    return header[0] if header else b""


def is_marked(entry: bytes) -> bool:
    """Return whether a stored entry was retried, or reaped from a worker."""
    header = _HEADER.match(entry)
    return header is not None and header[2] is not None


def listed_as(entry: bytes) -> tuple[bytes, bytes] | None:
    """Return fingerprint and domain ("" if it is that of its queue) of an entry of a scored crawl.

    None for an entry of which there is no copy.
    """
    header = _HEADER.match(entry)
    return (header[3], header[4]) if header and header[3] else None


def unlisted(entry: bytes) -> bytes:
    """Return an entry without its fingerprint."""
    header = _HEADER.match(entry)
    return b"%b,%b" % (header[1], entry[header.end() :]) if header and header[3] else entry


def split_entry(entry: bytes) -> tuple[int, int, bytes]:
    """Return header and body of a stored entry: retries, profile number, body."""
    header = _HEADER.match(entry)
    if not header:
        raise ValueError(f"not a stored entry: {entry[:40]!r}")
    number, marks, *_ = header.groups()
    return marks[0] - _MARK_ZERO if marks else 0, int(number), entry[header.end() :]
