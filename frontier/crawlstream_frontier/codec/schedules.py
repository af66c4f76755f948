"""Schedules and their outbox records, in the shapes of ``lua/operations/schedules``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from crawlstream.keys import FrontierKeys
from crawlstream.model.crawl import FiringKey
from crawlstream.model.effects import OutboxSchedule
from crawlstream.model.recurring.schedule import (
    OCCASION_DAYS,
    Fired,
    ScheduleEvent,
    ScheduleMark,
    ScheduleState,
    Skip,
    Turn,
)
from crawlstream.model.run_marks import RunMark
from crawlstream.wire import schedules
from crawlstream_frontier.codec.values import crawl_from, pack, pairs

_KINDS = frozenset({b"schedule_set", b"schedule_removed", b"schedule_fired", b"schedule_skipped"})
_REMEMBERED_S = (OCCASION_DAYS + 1) * 24 * 3600
_NUMBERS = (
    *("version", "since", "last", "fire", "begun", "fired_at", "fed", "fired"),
    *("skipped", "skips", "skipped_at", "repeated"),
)


def state_from(fields: Mapping[str, str], due: float) -> ScheduleState:
    """Return a schedule as stored in Redis; ValueError if its definition cannot be read."""
    numbers: dict[str, Any] = {name: int(fields.get(name, 0)) for name in _NUMBERS}
    return ScheduleState(
        schedule=schedules.decode(fields["definition"].encode()),
        is_paused="paused" in fields,
        is_stopping="stops" in fields,
        is_awaited="awaits" in fields,
        last_number=int(fields.get("awaits", "0 0").split(" ")[1]),
        due=-1 if due == float("inf") else int(due),
        last_crawl=crawl_from(fields["crawl"].encode()) if fields.get("crawl") else None,
        reason=fields.get("reason", ""),
        detail=fields.get("detail", ""),
        **numbers,
    )


def fields_from(flat: Sequence[bytes]) -> dict[str, str]:
    """Return the fields of a hash, from the flat list of HGETALL in Lua."""
    return pairs(flat)


def pack_turn(turn: Turn) -> bytes:
    """Pack the outcome of a schedule that was due."""
    state, fired = turn.state, turn.fired
    told = _pack_fired(fired) if fired else []
    skips = [part for skip in turn.skips for part in _pack_skip(skip)]
    field = FrontierKeys.schedule_field(*state.schedule.key)
    read = [field, state.version, state.last, state.fire]
    return pack([*read, turn.last, turn.due, turn.is_asked, told, skips])


def _pack_fired(fired: Fired) -> list[object]:
    crawl = FrontierKeys.crawl_field(fired.crawl)
    return [fired.at, crawl, fired.seeds, fired.late_s, fired.last_number]


def _pack_skip(skip: Skip) -> tuple[object, ...]:
    return skip.at, skip.reason, skip.count, skip.detail


def pack_marks(marks: Sequence[ScheduleMark]) -> tuple[bytes, bytes, bytes]:
    """Pack schedules, the progress of each, and the removed schedules, for ``reinstate``."""
    kept, reached, removed = list[object](), list[object](), list[object]()
    for mark in marks:
        field = FrontierKeys.schedule_field(mark.appid, mark.name)
        if mark.removed_ms:
            removed.append([field, mark.removed_ms])
        elif mark.schedule:
            text = schedules.encode(mark.schedule)
            kept.append([field, mark.version, text, mark.is_paused, mark.since])
        else:
            crawl = FrontierKeys.crawl_field(mark.last_crawl) if mark.last_crawl else ""
            reached.append([field, mark.last, crawl])
    return pack(kept), pack(reached), pack(removed)


def firing_from(occasion: bytes | None) -> FiringKey | None:
    """Return the firing of an occasion in Redis; None if there is no occasion."""
    if not occasion:
        return None
    field, _, at = occasion.decode().rpartition(":")
    return FiringKey(names_of(field)[1], int(at))


def pack_seen(marks: Sequence[RunMark], now: float) -> Iterator[list[object]]:
    """Yield the records of firings that took effect in ended runs, in parts, for ``remind``."""
    for mark in marks:
        if mark.firing is None or (until := mark.firing.at + _REMEMBERED_S) <= now:
            continue
        field = FrontierKeys.schedule_field(mark.crawl.appid, mark.firing.schedule)
        for part, bits in mark.seen.items():
            yield [f"{field}:{mark.firing.at}", part, bits, until]


def is_of_schedule(details: Mapping[bytes, Any]) -> bool:
    """Return whether a record of the outbox is about a schedule."""
    return details[b"kind"] in _KINDS


def unpack_outbox_schedule(id_: str, details: Mapping[bytes, Any]) -> OutboxSchedule:
    """Return a record of the outbox about a schedule."""
    kind, (appid, name) = details[b"kind"].decode(), names_of(details[b"schedule"].decode())
    if kind == "schedule_removed":
        mark = ScheduleMark(appid=appid, name=name, removed_ms=details[b"time"] * 1000)
        return OutboxSchedule(id=id_, kind=kind, mark=mark)
    if kind == "schedule_set":
        mark = ScheduleMark(
            appid=appid,
            name=name,
            version=details[b"version"],
            schedule=schedules.decode(details[b"definition"]),
            is_paused=details[b"paused"],
            since=details[b"since"],
        )
        return OutboxSchedule(id=id_, kind=kind, mark=mark)
    crawl = crawl_from(details[b"crawl"]) if details[b"crawl"] else None
    mark = ScheduleMark(appid=appid, name=name, last=details[b"last"], last_crawl=crawl)
    event = ScheduleEvent(
        event=kind,
        appid=appid,
        schedule=name,
        at=details[b"at"],
        server_time=details[b"time"],
        seeds=details.get(b"seeds", 0),
        late_s=details.get(b"late", 0),
        crawl=crawl if kind == "schedule_fired" else None,
        reason=details.get(b"reason", b"").decode(),
        detail=details.get(b"detail", b"").decode(),
        count=details.get(b"count", 1),
    )
    return OutboxSchedule(id=id_, kind=kind, mark=mark, event=event)


def names_of(field: str) -> tuple[str, str]:
    """Return application and name of a schedule from its field."""
    appid, _, name = field.rpartition(":")
    return unquote(appid), name
