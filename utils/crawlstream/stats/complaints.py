"""What a process has warned of lately: a few lines that travel with its heartbeat."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, MutableMapping
from typing import Any

from crawlstream.model.process import Complaint

MOST = 5
LONGEST = 300
"""Characters of a line."""
_SERIOUS = frozenset({"warning", "error", "critical"})
_LEFT_OUT = frozenset({"event", "outcome", "level", "timestamp", "process", "logger", "exc_info"})

_latest: deque[Complaint] = deque(maxlen=MOST)


def note_complaint(_logger: object, _method: str, event: MutableMapping[str, Any]) -> Any:
    """A processor of structlog, behind the one that adds the level: remember what is serious."""
    if event.get("level") in _SERIOUS and not _is_daily(event):
        words = [event.get("event"), event.get("outcome"), *_rest(event)]
        text = " ".join(" ".join(str(word) for word in words if word).split())
        _latest.append(Complaint(round(time.time(), 1), str(event["level"]), text[:LONGEST]))
    return event


def _is_daily(event: MutableMapping[str, Any]) -> bool:
    """Pages that fail are counted elsewhere; what libraries warn of is no operator's business."""
    return event.get("event") == "settle" or (event["level"] == "warning" and "logger" in event)


def _rest(event: MutableMapping[str, Any]) -> Iterator[str]:
    told = {name: value for name, value in event.items() if not name.startswith("_")}
    fields = ((name, value) for name, value in told.items() if name not in _LEFT_OUT)
    return (f"{name}={value}" for name, value in fields if value is not None and value != "")


def latest_complaints() -> tuple[Complaint, ...]:
    """The latest first."""
    return tuple(reversed(_latest))
