"""Rejected records as JSON: the unchanged bytes, and the reason why they had no effect."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

from crawlstream import __version__
from crawlstream.model.event import Rejection
from crawlstream.wire import jsontext

REPLAY_HEADER = "crawlstream-replay"
"""Header of a record that was replayed: the id of its rejection."""

MAX_RAW_BYTES = 5 * 1024 * 1024
"""Bytes to which values are cut: larger ones would not fit the topic as base64."""


def encode(rejection: Rejection) -> bytes:
    """Return a rejection as UTF-8 JSON; ``raw`` is base64, or null if there was no value."""
    return jsontext.dumps(as_record(rejection))


def as_record(rejection: Rejection) -> dict[str, Any]:
    """Return a rejection as a JSON object."""
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
    return record


def decode(value: bytes) -> Rejection:
    """Return the rejection in a record's value; raise ValueError for other bytes.

    ``raw`` is None if the record was empty or is cut: it cannot be replayed.
    """
    return of_record(jsontext.loads(value))


def of_record(record: Any) -> Rejection:
    """Return the rejection in a JSON object."""
    try:
        raw = record["raw"]
        return Rejection(
            reason=str(record["reason"]),
            errors=[str(error) for error in record["errors"]],
            raw=b64decode(raw, validate=True) if raw and "raw_truncated" not in record else None,
            topic=record["topic"],
            partition=record["partition"],
            offset=record["offset"],
            timestamp_ms=record["timestamp"],
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a rejected record: {record!r:.40}") from error
