"""Schedules of a frontier of several partitions: stored in the first, occasions at coordinators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import structlog

from crawlstream.errors import RedisUnavailable
from crawlstream.model.recurring.schedule import Schedule, ScheduleState
from crawlstream_frontier.partitions.answers import Queryable
from crawlstream_frontier.schedules import DueSchedules, Schedules

log = structlog.get_logger()


class DividedSchedules(Schedules):
    """As ``Schedules``; coordinators know whether the last seed of a firing has taken effect."""

    def __init__(self, frontiers: Queryable) -> None:
        super().__init__(frontiers[0].scripts)
        self._frontiers = frontiers

    async def due(self, by: str, *, most: int) -> DueSchedules:
        """Lend due schedules; seeds are awaited as long as no coordinator has had the last one."""
        found = await super().due(by, most=most)
        return replace(found, due=[await self._as_coordinators_say(state) for state in found.due])

    async def _as_coordinators_say(self, state: ScheduleState) -> ScheduleState:
        if not state.is_awaited:
            return state
        has_had = await self.has_had(state.schedule, state.fired_at, state.last_number)
        return replace(state, is_awaited=not has_had)

    async def has_had(self, schedule: Schedule, at: int, number: int) -> bool:
        """Return True if a seed of the firing at a time took effect, by any coordinator."""
        answers = await self._frontiers.query(
            lambda each: each.schedules.has_had(schedule, at, number)
        )
        return any(answers.values)

    async def note_repeated(self, repeated: Mapping[str, int]) -> None:
        """Count repeated records of firings, by the key of their schedule; for display."""
        try:
            await self._count_repeated(repeated)
        except RedisUnavailable as error:
            log.warning("fire", outcome="not_counted", error=str(error))
