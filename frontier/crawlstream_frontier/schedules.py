"""Schedules: due ones, outcomes of firings, and definitions."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import structlog

from crawlstream.keys import FrontierKeys, encode_id
from crawlstream.model.recurring.schedule import (
    MOST_NUMBERS,
    MOST_SEEDS,
    Schedule,
    ScheduleMark,
    ScheduleState,
    Turn,
)
from crawlstream.model.run_marks import RunMark
from crawlstream_frontier.codec.schedules import (
    fields_from,
    names_of,
    pack_marks,
    pack_seen,
    pack_turn,
    state_from,
)
from crawlstream_frontier.codec.values import pack, unpack
from crawlstream_frontier.scripts import Scripts, our_errors

CLAIM_MS = 10_000
"""Time for which only one redis-monitor gets a due schedule, unless it is done before."""
OCCASIONS_A_PART = 4096
"""Records of an occasion per key, one bit each, as in ``includes/occasions.lua``."""
MARKS_A_CALL = 100
"""Marks restored in one call, so that no call takes long."""
_LATEST_EDITION = MOST_NUMBERS // MOST_SEEDS - 2
"""Largest edition: if the seeds change more often while one firing is fed, it keeps this one."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class DueSchedules:
    """Result of a query for due schedules."""

    now: int
    """Redis' clock, epoch seconds."""
    is_more: bool
    schedules: int
    """Number of schedules."""
    skipping: int
    """Number of schedules skipped at least three times in a row."""
    due: Sequence[ScheduleState]


class Schedules:
    """The schedules of all applications.

    Every method raises RedisUnavailable when Redis gives no answer; repeating it is safe.
    """

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts
        self._redis = scripts.redis
        self._keys = scripts.keys

    async def due(self, by: str, *, most: int) -> DueSchedules:
        """Lend the due schedules to a redis-monitor of this name."""
        answer = unpack(await self._scripts.run("due", by, most, CLAIM_MS))
        now, is_more, count, skipping, claimed = answer
        states = [
            _state(field, fields_from(flat), 0)
            for field, flat in zip(claimed[::2], claimed[1::2], strict=True)
        ]
        due = [state for state in states if state is not None]
        return DueSchedules(now, is_more, count, skipping, due)

    async def begin(
        self, state: ScheduleState, at: int, *, stops: bool, content: str = ""
    ) -> int | None:
        """Note that a firing is fed from now on; None: another redis-monitor has completed it.

        ``content`` is a digest of its seeds. Returns the number of the first of them: it is not 0
        if the same firing was begun with other seeds.
        """
        field = FrontierKeys.schedule_field(*state.schedule.key)
        told = (field, state.last, at, int(stops), content, _LATEST_EDITION)
        edition = cast(int, await self._scripts.run("begin", *told))
        return None if edition < 0 else edition * MOST_SEEDS

    async def done(self, turn: Turn) -> bool:
        """Record the outcome of a firing; False: recorded by another before, nothing changed."""
        return await self._scripts.run("fired", pack_turn(turn)) == 1

    async def all(self, appid: str | None = None) -> Sequence[ScheduleState]:
        """Return all schedules, or those of an application, by application and name."""
        with our_errors():
            listed = await self._redis.zrange(self._keys.schedules(), 0, -1, withscores=True)
            fitting = [
                (field, due)
                for field, due in sorted(listed)
                if appid is None or field.decode().startswith(f"{encode_id(appid)}:")
            ]
            async with self._redis.pipeline(transaction=False) as pipe:
                for field, _ in fitting:
                    pipe.hgetall(self._keys.schedule(field.decode()))
                found = await pipe.execute()
        states = [
            _state(field, _texts(fields), due)
            for (field, due), fields in zip(fitting, found, strict=True)
        ]
        return [state for state in states if state is not None]

    async def names(self, appids: Collection[str] = ()) -> set[tuple[str, str]]:
        """Return application and name of each schedule, of these applications or of all."""
        with our_errors():
            fields = await self._redis.zrange(self._keys.schedules(), 0, -1)
        found = {names_of(field.decode()) for field in fields}
        return {one for one in found if not appids or one[0] in appids}

    async def one(self, appid: str, name: str) -> ScheduleState | None:
        """Return a schedule; None: the name is unknown."""
        field = FrontierKeys.schedule_field(appid, name)
        with our_errors():
            fields = await self._redis.hgetall(self._keys.schedule(field))
            due = await self._redis.zscore(self._keys.schedules(), field)
        return None if due is None else _state(field.encode(), _texts(fields), due)

    async def has_had(self, schedule: Schedule, at: int, number: int) -> bool:
        """Return whether a seed of the firing at a time has taken effect, if known here."""
        field = FrontierKeys.schedule_field(*schedule.key)
        part, bit = divmod(number, OCCASIONS_A_PART)
        key = self._keys.occasion(f"{field}:{at}", part)
        with our_errors():
            return bool(await self._redis.getbit(key, bit))

    async def _count_repeated(self, repeated: Mapping[str, int]) -> None:
        with our_errors():
            for field, count in repeated.items():
                key = self._keys.schedule(field)
                if await self._redis.hexists(key, "definition"):
                    await self._redis.hincrby(key, "repeated", count)

    async def reinstate(self, marks: Sequence[ScheduleMark]) -> int:
        """Restore marks from Kafka in a Redis that lost them; newer data in Redis stays.

        Returns the number of marks that were new, at most one per schedule and call.
        """
        forgotten = 0
        for start in range(0, len(marks), MARKS_A_CALL):
            packed = pack_marks(marks[start : start + MARKS_A_CALL])
            forgotten += cast(int, await self._scripts.run("reinstate", *packed))
        return forgotten

    async def remind(self, marks: Sequence[RunMark]) -> None:
        """Restore in a Redis that lost them the applied records of firings in ended runs."""
        parts = list(pack_seen(marks, time.time()))
        for start in range(0, len(parts), MARKS_A_CALL):
            await self._scripts.run("remind", pack(parts[start : start + MARKS_A_CALL]))


def _texts(fields: Mapping[bytes, bytes]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in fields.items()}


def _state(field: bytes, fields: Mapping[str, str], due: float) -> ScheduleState | None:
    """Return a schedule; None, and a line in the log, if this version cannot read it."""
    try:
        return state_from(fields, due)
    except (ValueError, KeyError):
        log.exception("fire", outcome="unreadable", name=field.decode())
        return None
