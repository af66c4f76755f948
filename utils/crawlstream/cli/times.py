"""Spans of time as people read them."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """``1:02:03``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


def ago(seconds: float) -> str:
    """``3 s ago``, ``5 min ago``, ``2 h ago``, ``4 d ago``."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit} ago"
    return f"{max(int(seconds), 0)} s ago"
