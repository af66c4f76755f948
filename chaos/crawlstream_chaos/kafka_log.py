"""Kafka's logs on disk: to take their end away, as a power cut does where one broker holds them."""

from __future__ import annotations

import os
import struct
from pathlib import Path

_BATCH = struct.Struct(">qi")
"""A record batch begins with its base offset and the length of the rest."""


def cut_log(data: Path, topic: str, partition: int, offset: int) -> int:
    """Take away the batches from ``offset`` on of a stopped broker; the offset that is left."""
    (folder,) = data.rglob(f"{topic}-{partition}")
    segment = max(folder.glob("*.log"))
    content, at, end = segment.read_bytes(), 0, int(segment.stem)
    while at + _BATCH.size <= len(content):
        base, rest = _BATCH.unpack_from(content, at)
        if base >= offset or rest <= 0:
            break
        last = struct.unpack_from(">i", content, at + 23)[0]
        end, at = base + last + 1, at + _BATCH.size + rest
    os.truncate(segment, at)
    return end
