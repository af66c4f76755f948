"""A memory of what was made of some bytes, bounded by the bytes it remembers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

_OVERHEAD = 64
"""Bytes that an entry takes at least, however short it is."""


class Remembered(Generic[T]):
    """Calls ``make``, or answers as it did for the same bytes; the longest unused are forgotten."""

    def __init__(self, make: Callable[[bytes], T], *, most_bytes: int) -> None:
        self._make = make
        self._most = most_bytes
        self._known: OrderedDict[bytes, T] = OrderedDict()
        self.bytes = 0
        """Remembered now."""

    def __call__(self, packed: bytes) -> T:
        """What was made of these bytes; raises what ``make`` raises."""
        known = self._known
        try:
            known.move_to_end(packed)
        except KeyError:
            made = self._make(packed)
        else:
            return known[packed]
        known[packed] = made
        self.bytes += len(packed) + _OVERHEAD
        while self.bytes > self._most:
            forgotten, _made = known.popitem(last=False)
            self.bytes -= len(forgotten) + _OVERHEAD
        return made
