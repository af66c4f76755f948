"""A cache of what was decoded from some bytes, bounded by the bytes that it keeps."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

_OVERHEAD = 64
"""Bytes that an entry takes at least, however short it is."""


class DecodeCache(Generic[T]):
    """Calls ``decode``, or answers as it did for the same bytes; drops the least recently used."""

    def __init__(self, decode: Callable[[bytes], T], *, most_bytes: int) -> None:
        self._decode = decode
        self._most = most_bytes
        self._cached: OrderedDict[bytes, T] = OrderedDict()
        self.bytes = 0
        """Kept now."""

    def __call__(self, packed: bytes) -> T:
        """What was decoded from these bytes; raises what ``decode`` raises."""
        cached = self._cached
        try:
            cached.move_to_end(packed)
        except KeyError:
            decoded = self._decode(packed)
        else:
            return cached[packed]
        cached[packed] = decoded
        self.bytes += len(packed) + _OVERHEAD
        while self.bytes > self._most:
            dropped, _decoded = cached.popitem(last=False)
            self.bytes -= len(dropped) + _OVERHEAD
        return decoded
