"""Changes of pages that a memory finds, as events for clients: pure functions."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from crawlstream.wire import jsontext
from pipeline_service.memory.known_page import KnownPage
from pipeline_service.memory.seen import Seen, key_of

_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
_LONGEST_SIGNATURE = 100
"""Characters of a signature that an event repeats."""


class ChangeKind(StrEnum):
    """Kind of a change."""

    NEW = "new"
    CHANGED = "changed"
    GONE = "gone"
    BACK = "back"


class ResultPlace(NamedTuple):
    """Place of the record that shows a change."""

    topic: str
    partition: int
    offset: int


class TextDiff(NamedTuple):
    """Lines of a page's text by which it differs from the text at its last event."""

    added: int
    removed: int
    text: str | None
    """Hunks of the unified format; None: there are too many, and only numbers are known."""
    truncated: bool
    """True if lines are missing in the hunks, or if the texts were longer than what is kept."""


class LearntStep(NamedTuple):
    """Page before and after one record."""

    before: KnownPage | None
    """None: it was not known."""
    after: KnownPage
    seen: Seen
    place: ResultPlace


class ChangeEvent(NamedTuple):
    """Event `page_changed` of one change."""

    key: str
    """Key of its record, which no other change has."""
    page: str
    """Key of its page."""
    at: float
    """Time of the response that shows the change, in epoch seconds."""
    value: str
    """JSON."""


def change_of(before: KnownPage | None, after: KnownPage) -> ChangeKind | None:
    """Return what one record has changed; None: no change that has an event.

    A page that is there again is back, whether or not its content is another.
    """
    if before is None:
        return ChangeKind.NEW
    if before.is_gone != after.is_gone:
        return ChangeKind.GONE if after.is_gone else ChangeKind.BACK
    return ChangeKind.CHANGED if after.changes > before.changes else None


def event_of(memory: str, step: LearntStep, more: Mapping[str, Any]) -> ChangeEvent | None:
    """Return the event for a change that a record shows; None: it shows none.

    ``memory`` is the name of the pipeline, ``more`` are further fields. A memory learns from each
    page only what is later than what it knows, so page and time are a name that no other change
    has. The id of the result is none: a page that was requested twice after a crash has one id, and
    perhaps two contents.
    """
    before, after, seen, place = step
    kind = change_of(before, after)
    if kind is None:
        return None
    at_us = round(seen.at * 1e6)
    told = {
        "event": "page_changed",
        "appid": after.appid,
        "memory": memory,
        "url": after.url,
        "change": kind,
        "id": seen.id,
        "before": None if before is None else _time(round(before.last_seen * 1e6)),
        "at": _time(at_us),
        "signature": {
            "from": None if before is None else _shown(before.signature),
            "to": _shown(after.signature),
        },
        "visits": after.visits,
        "changes": after.changes,
        "result": place._asdict(),
        **more,
        "server_time": int(time.time()),
    }
    key = _key(memory, seen.key, at_us)
    return ChangeEvent(key, seen.key, seen.at, jsontext.dumps(told).decode())


def event_in(value: bytes) -> ChangeEvent:
    """Return the event that `event_of` made, by its JSON; ValueError."""
    told: Any = jsontext.loads(value)
    try:
        page = key_of(told["appid"], told["url"])
        at_us = (datetime.fromisoformat(told["at"]) - _EPOCH) // _MICROSECOND
        key = _key(told["memory"], page, at_us)
    except (KeyError, TypeError) as error:
        raise ValueError("not an event of a change") from error
    return ChangeEvent(key, page, at_us / 1e6, value.decode())


def diff_field(diff: TextDiff | None) -> Mapping[str, Any]:
    """Return the field of an event with its diff; null where there is nothing to compare with."""
    if diff is None:
        return {"diff": None}
    return {"diff": {"unit": "lines", **diff._asdict()}}


def _shown(signature: str | None) -> str | None:
    return signature if signature is None else signature[:_LONGEST_SIGNATURE]


def _key(memory: str, page: str, at_us: int) -> str:
    return f"{memory}:{page}:{at_us}"


def _time(at_us: int) -> str:
    at = _EPOCH + at_us * _MICROSECOND
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")
