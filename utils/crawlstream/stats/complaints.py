"""Recent log of a process, for its heartbeat: its warnings, and its latest lines."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from crawlstream.model.process import LogLine

MOST = 5
LONGEST = 300
"""Characters of a line."""
_SERIOUS = frozenset({"warning", "error", "critical"})
_LEFT_OUT = frozenset({"event", "outcome", "level", "timestamp", "process", "logger", "exc_info"})

LINES = 40
"""Lines of any level."""

_latest: deque[LogLine] = deque(maxlen=MOST)
_lines: deque[tuple[float, Mapping[str, Any]]] = deque(maxlen=LINES)
"""Formatted only when they are read."""


def note_complaint(_logger: object, _method: str, event: MutableMapping[str, Any]) -> Any:
    """A processor of structlog, behind the one that adds the level: remember it."""
    now = time.time()
    _lines.append((now, {**event}))
    if event.get("level") in _SERIOUS and not _is_daily(event):
        _latest.append(_line(now, event))
    return event


def _line(at: float, event: Mapping[str, Any]) -> LogLine:
    words = [event.get("event"), event.get("outcome"), *_rest(event)]
    text = " ".join(" ".join(str(word) for word in words if word).split())
    return LogLine(round(at, 1), str(event.get("level", "")), text[:LONGEST])


def _is_daily(event: MutableMapping[str, Any]) -> bool:
    """Return whether operators can ignore an event: failed pages and warnings of libraries.

    Failed pages are counted elsewhere.
    """
    return event.get("event") == "settle" or (event["level"] == "warning" and "logger" in event)


def _rest(event: Mapping[str, Any]) -> Iterator[str]:
    told = {name: value for name, value in event.items() if not name.startswith("_")}
    fields = ((name, value) for name, value in told.items() if name not in _LEFT_OUT)
    return (f"{name}={value}" for name, value in fields if value is not None and value != "")


def latest_complaints() -> tuple[LogLine, ...]:
    """The latest first."""
    return tuple(reversed(_latest))


def latest_lines() -> list[tuple[float, str, str]]:
    """The latest lines of any level, the latest first: time (epoch s), level, text."""
    found = (_line(at, event) for at, event in reversed(_lines))
    return [(one.at, one.level, one.text) for one in found]
