"""A cache of decoded values, bounded by the size of their encoded bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

_OVERHEAD = 64
"""Bytes that are counted for each entry in addition to its own."""


class DecodeCache(Generic[T]):
    """Calls ``decode`` once for the same bytes; drops the least recently used values."""

    def __init__(self, decode: Callable[[bytes], T], *, most_bytes: int) -> None:
        self._decode = decode
        self._most = most_bytes
        self._cached: OrderedDict[bytes, T] = OrderedDict()
        self.bytes = 0
        """Size of the cache now."""

    def __call__(self, packed: bytes) -> T:
        """Return the decoded value of these bytes; raises the errors of ``decode``."""
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
