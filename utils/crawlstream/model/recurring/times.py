"""The times of a schedule: five fields of cron in a time zone, computed by cronsim.

If a zone repeats an hour, a job at a fixed time fires once, in the first one. If a zone skips an
hour, the job fires at the end of the gap.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from itertools import islice, pairwise, takewhile
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from crawlstream.model.recurring.schedule import Schedule

FIELDS = 5
FIELDS_WITH_SECONDS = 6
MINUTE_S = 60
_GAPS, _GAPS_WITHIN_S = 100, 400 * 86_400
"""Number of firings, and their time span, that are searched for the smallest gap."""
MOST_COUNTED = 200
"""Maximum count of missed firings: each takes a fraction of a millisecond."""
_HOUR_S, _DAY_S = 3_600, 86_400
_LOOK_BACK_S = (_HOUR_S, _DAY_S, 8 * _DAY_S, 32 * _DAY_S, 366 * _DAY_S, 8 * 366 * _DAY_S)
_GAPS_FROM = 1_767_225_600
"""Start of the search, 2026-01-01: any day works."""
_IN_FIELDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


def cron_problem(cron: str, *, min_s: int) -> str:
    """Return why an expression is invalid, or ""; a field of seconds needs ``min_s`` below 60."""
    fields = cron.split()
    wanted = (FIELDS, FIELDS_WITH_SECONDS) if min_s < MINUTE_S else (FIELDS,)
    if len(fields) not in wanted:
        meant = _IN_FIELDS.get(cron.strip().lower())
        hint = f"; write `{meant}`" if meant else ""
        return f"must have {FIELDS} fields (minute hour day month weekday){hint}"
    try:
        first = next(_times(cron, "UTC", _GAPS_FROM), None)
    except CronSimError as error:
        return f"is not a cron expression ({str(error) or 'no such time'})"
    return "" if first is not None else "never comes"


def zone_problem(zone: str) -> str:
    """Return why a time zone is invalid, or ""."""
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return f"{zone[:60]!r} is not a time zone; write one of IANA's names, as Europe/Berlin"
    return ""


@lru_cache(maxsize=1024)
def smallest_gap_s(cron: str) -> int:
    """Return the smallest number of seconds between two firings."""
    until = _GAPS_FROM + _GAPS_WITHIN_S
    near = takewhile(lambda at: at < until, _times(cron, "UTC", _GAPS_FROM))
    gaps = (after - before for before, after in pairwise(islice(near, _GAPS)))
    return min(gaps, default=_GAPS_WITHIN_S)


def times_of(schedule: Schedule, after: int) -> Iterator[int]:
    """Yield the times of a schedule after ``after``, in epoch seconds, without jitter."""
    for at in _times(schedule.cron, schedule.zone, after):
        if schedule.until is not None and at > schedule.until:
            return
        yield at


def due_at(schedule: Schedule, at: int) -> int:
    """Return when the firing of a time is due, after a jitter computed from its name."""
    if not schedule.jitter_s:
        return at
    name = f"{schedule.appid}:{schedule.name}:{at}".encode()
    number = int.from_bytes(blake2b(name, digest_size=8).digest())
    return at + number % (schedule.jitter_s + 1)


def latest_due(schedule: Schedule, after: int, now: int) -> int | None:
    """Return the latest time after ``after`` whose firing is due; None: none is due."""
    for back_s in _LOOK_BACK_S:
        start = max(after, now - back_s - schedule.jitter_s)
        latest = None
        for at in times_of(schedule, start):
            if due_at(schedule, at) > now:
                break
            latest = at
        if latest is not None or start == after:
            return latest
    return None


def times_between(schedule: Schedule, after: int, before: int) -> list[int]:
    """Return the times between two, both excluded: at most the first ``MOST_COUNTED``."""
    times = takewhile(lambda at: at < before, times_of(schedule, after))
    return list(islice(times, MOST_COUNTED))


def next_due(schedule: Schedule, after: int) -> int | None:
    """Return when the first firing after ``after`` is due; None: there is none."""
    at = next(times_of(schedule, after), None)
    return None if at is None else due_at(schedule, at)


def _times(cron: str, zone: str, after: int) -> Iterator[int]:
    """Yield the times after ``after``, in epoch seconds and in order."""
    for time in CronSim(cron, datetime.fromtimestamp(after, ZoneInfo(zone))):
        at = int(time.timestamp())
        # cronsim follows local time, in which an hour in autumn occurs twice.
        if at > after:
            after = at
            yield at
