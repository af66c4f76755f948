"""Dates of HTTP headers."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def moment(text: str) -> float | None:
    """Return the epoch second of an HTTP date; None for anything else."""
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    # ``-0000`` means UTC as well, but is read as a time without a zone.
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
