"""Repeats: the ids of the last segments of a partition, whose pages are in the store already.

A page comes again when its crawler died between publishing and settling it, under its id, and so in
its partition, soon after. The kept ids are a function of the chain of segments alone: whole
segments, the newest, as few as reach the number. So every process that makes a segment again leaves
out equal repeats.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, deque

ID_BYTES = 16
_HEX_ID = re.compile(r"[0-9a-f]{32}\Z")


def short(name: str) -> bytes:
    """A page's id in 16 bytes: itself where it is hex, else a hash."""
    if _HEX_ID.match(name):
        return bytes.fromhex(name)
    return hashlib.blake2b(name.encode(), digest_size=ID_BYTES).digest()


class Repeats:
    """The ids of the newest segments."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._segments: deque[bytes] = deque()
        self._count = 0
        self._known: Counter[bytes] = Counter()

    @property
    def is_full(self) -> bool:
        """Return whether older segments would be forgotten at once."""
        return self._count >= self._most

    def __contains__(self, name: bytes) -> bool:
        return name in self._known

    def add(self, ids: bytes) -> None:
        """Remember a segment after all others: its ids, one after the other."""
        self._segments.append(ids)
        self._note(ids)
        while self._segments and self._count - len(self._segments[0]) // ID_BYTES >= self._most:
            self._forget(self._segments.popleft())

    def add_older(self, ids: bytes) -> None:
        """Remember a segment before all others; not to be called when full."""
        self._segments.appendleft(ids)
        self._note(ids)

    def _note(self, ids: bytes) -> None:
        self._count += len(ids) // ID_BYTES
        self._known.update(_split(ids))

    def _forget(self, ids: bytes) -> None:
        self._count -= len(ids) // ID_BYTES
        for name in _split(ids):
            self._known[name] -= 1
            if not self._known[name]:
                del self._known[name]


def _split(ids: bytes) -> list[bytes]:
    return [ids[at : at + ID_BYTES] for at in range(0, len(ids), ID_BYTES)]
