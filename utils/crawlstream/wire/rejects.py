"""Rejected records as JSON: the bytes as they came, and why they took no effect."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from crawlstream import __version__
from crawlstream.model.event import Rejection
from crawlstream.wire import jsontext

MAX_RAW_BYTES = 5 * 1024 * 1024
"""Larger values are cut: as base64 they would not fit the topic."""


def encode(rejection: Rejection) -> bytes:
    """A rejection as UTF-8 JSON; ``raw`` is base64, or null where there was no value."""
    raw = rejection.raw
    record: dict[str, Any] = {
        "reason": rejection.reason,
        "errors": list(rejection.errors),
        "topic": rejection.topic,
        "partition": rejection.partition,
        "offset": rejection.offset,
        "timestamp": rejection.timestamp_ms,
        "raw": b64encode(raw[:MAX_RAW_BYTES]).decode("ascii") if raw else None,
        "version": __version__,
    }
    if raw and len(raw) > MAX_RAW_BYTES:
        record |= {"raw_truncated": True, "raw_size": len(raw)}
    return jsontext.dumps(record)
