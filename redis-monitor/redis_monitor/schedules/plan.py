"""Plan of a schedule that is due: from its state and the time, nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from crawlstream.model.recurring.schedule import ScheduleState, Skip
from crawlstream.model.recurring.times import due_at, latest_due, next_due, times_between

AHEAD_S = 300
"""A time that is noted so far ahead was noted while Redis' clock was wrong; those of a failover
differ by less."""

OLDEST_S = 7 * 86_400 - 3_600
"""Seeds of an older firing would all be refused (``occasion``), an hour left for feeding them."""

GRACE_S = 30
"""A firing is only skipped if it is later: another monitor may take this long to continue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FiringPlan:
    """Plan of a firing, if nothing prevents it."""

    last: int
    """The latest time that is dealt with by this."""
    due: int
    """When the schedule is to be looked at next; -1: never again."""
    firing: int | None = None
    """The time that it fires for."""
    late_s: int = 0
    is_asked: bool = False
    """True if a client requested this firing."""
    skips: Sequence[Skip] = ()
    """Times at which it does not fire, whatever is in the way."""


def plan(state: ScheduleState, now: int) -> FiringPlan:
    """Return the plan: the latest due time fires, unless it is too late; the others are missed.

    A requested firing comes after that, also if the schedule is paused. A firing that has begun,
    whose seeds may have been fed in part, comes first.
    """
    state = _believed(state, now)
    schedule, after = state.schedule, max(state.last, state.since)
    if state.begun > after:
        return _going_on(state, after, now)
    latest = latest_due(schedule, after, now)
    if latest is None:
        return (
            _asked_for(state, now)
            if state.fire
            else FiringPlan(last=state.last, due=_next(state, after))
        )
    missed = times_between(schedule, after, latest)
    told = FiringPlan(last=latest, due=_next(state, latest))
    if state.is_paused:
        return _skipping(told, Skip(latest, "paused", len(missed) + 1))
    skips = [Skip(missed[-1], "missed", len(missed))] if missed else []
    late_s = now - due_at(schedule, latest)
    if late_s > max(min(schedule.catch_up_s, OLDEST_S), GRACE_S):
        return _skipping(told, *skips, Skip(latest, "late"))
    return FiringPlan(last=latest, due=told.due, firing=latest, late_s=late_s, skips=skips)


def _believed(state: ScheduleState, now: int) -> ScheduleState:
    """Return a state without times that are still to come, so that they silence nothing."""
    if max(state.last, state.since, state.begun, state.fire) <= now + AHEAD_S:
        return state
    last, since = min(state.last, now), state.since
    if since > now + AHEAD_S:
        last, since = last or now, 0
    begun = state.begun if state.begun <= now + AHEAD_S else 0
    return replace(state, last=last, since=since, begun=begun, fire=min(state.fire, now))


def _asked_for(state: ScheduleState, now: int) -> FiringPlan:
    last = max(state.last, state.fire)
    told = FiringPlan(last=last, due=_next(state, max(last, state.since)), is_asked=True)
    if now - state.fire > OLDEST_S:
        return replace(told, skips=[Skip(state.fire, "late")])
    return replace(told, firing=state.fire)


def _going_on(state: ScheduleState, after: int, now: int) -> FiringPlan:
    at, is_asked = state.begun, state.begun == state.fire
    missed = times_between(state.schedule, after, at)
    if now - at > OLDEST_S:
        told = FiringPlan(last=at, due=_next(state, at), is_asked=is_asked)
        return replace(told, skips=[Skip(at, "late", len(missed) + 1)])
    return FiringPlan(
        last=at,
        due=_next(state, at),
        firing=at,
        late_s=0 if is_asked else max(now - due_at(state.schedule, at), 0),
        is_asked=is_asked,
        skips=[Skip(missed[-1], "missed", len(missed))] if missed else [],
    )


def _skipping(told: FiringPlan, *skips: Skip) -> FiringPlan:
    return FiringPlan(last=told.last, due=told.due, skips=skips)


def _next(state: ScheduleState, after: int) -> int:
    due = next_due(state.schedule, after)
    return -1 if due is None else due
