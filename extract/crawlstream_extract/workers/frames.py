"""Messages between a process and its workers: a length in four bytes, then msgpack."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import msgpack  # type: ignore[import-untyped]

LENGTH = struct.Struct(">I")
MOST_BYTES = 32 << 20
"""Largest message of a worker in bytes; a message to it has at least one value."""


def pack(value: object) -> bytes:
    """A message with its length."""
    body: bytes = msgpack.packb(value)
    return LENGTH.pack(len(body)) + body


def pack_values(values: Sequence[bytes]) -> bytes:
    """A message that is a list of bytes; ``pack`` would copy them twice more."""
    parts = [b"\xdd", LENGTH.pack(len(values))]
    for value in values:
        parts += (b"\xc6", LENGTH.pack(len(value)), value)
    return b"".join([LENGTH.pack(sum(map(len, parts))), *parts])


def packed(value: object) -> bytes:
    """Plain values, without a length."""
    body: bytes = msgpack.packb(value)
    return body


def unpack(body: bytes) -> Any:
    """Plain values of ``packed``, or of a message; ValueError for anything else."""
    return msgpack.unpackb(body, strict_map_key=False)
