"""Attributes of events by CloudEvents 1.0: as headers in Kafka, or around the event over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from crawlstream.wire import jsontext

CONTENT_TYPE = "application/cloudevents+json"
_SUBJECTS = ("url", "crawlid", "schedule", "site")
"""Fields of an event that say what it is about, the narrowest first."""

Headers = tuple[tuple[str, bytes], ...]


def headers_of(prefix: str, key: bytes | None, value: bytes) -> Headers:
    """Return the headers of a record on ``<prefix>.events``, in the binary mode of Kafka.

    A value that is not an event has none.
    """
    try:
        event: Any = jsontext.loads(value)
        told = attributes_of(prefix, (key or b"").decode(), event)
    except (KeyError, TypeError, ValueError, OverflowError):
        return ()
    named = tuple((f"ce_{name}", text.encode()) for name, text in told.items())
    return (("content-type", b"application/json"), *named)


def structured(prefix: str, key: str, value: bytes) -> bytes:
    """Return an event with its attributes as one object of JSON, of the type `CONTENT_TYPE`."""
    event: Any = jsontext.loads(value)
    about = {**attributes_of(prefix, key, event), "datacontenttype": "application/json"}
    return jsontext.dumps({**about, "data": event})


def attributes_of(prefix: str, key: str, event: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the attributes; equal for the repetition of an event, and for no other event.

    KeyError, TypeError, ValueError, OverflowError: it is not an event.
    """
    name, at = event["event"], event.get("at")
    number = f"{event['family']}:{event['server_time']}" if name == "guard_verdict" else ""
    subject = next((event[each] for each in _SUBJECTS if event.get(each)), "")
    return {
        "specversion": "1.0",
        "id": ":".join(filter(None, (name, key, number))),
        "source": f"/crawlstream/{prefix}",
        "type": f"crawlstream.{name}",
        **({"subject": str(subject)} if subject else {}),
        "time": at if isinstance(at, str) else _time(event["server_time"]),
    }


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
