"""Schedules as Kafka remembers them, for a Redis that was lost or is an older copy of itself."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from crawlstream.bus.connect import Kafka
from crawlstream.bus.history import read_all
from crawlstream.bus.records import Record
from crawlstream.keys import Topics
from crawlstream.model.recurring.schedule import ScheduleMark
from crawlstream.model.run_marks import RunMark
from crawlstream.wire import schedules
from crawlstream_frontier.codec.schedules import names_of
from crawlstream_frontier.schedules import Schedules

_FIRED = ":fired"

log = structlog.get_logger()


class ScheduleMemory:
    """Restores schedules from ``<prefix>.schedules``, before any record takes effect."""

    def __init__(self, known: Schedules, kafka: Kafka, topics: Topics) -> None:
        self._known = known
        self._kafka = kafka
        self._topic = topics.schedules

    async def recall(self, runs: Sequence[RunMark]) -> None:
        """Send Redis the schedules that it has lost; KafkaUnavailable, RedisUnavailable: retry.

        ``runs`` are the records that Kafka keeps of these.
        """
        await self._known.remind(runs)
        marks = marks_of(await read_all(self._kafka, self._topic))
        forgotten = await self._known.reinstate(marks)
        if forgotten:
            log.warning("recover", schedules=forgotten)


def marks_of(records: Sequence[Record]) -> list[ScheduleMark]:
    """Return the marks in records, schedules first; report and omit one that cannot be read."""
    marks = []
    for record in records:
        try:
            mark = _mark(record)
        except ValueError as error:
            log.warning("recover", outcome="unreadable", error=str(error))
            continue
        if mark is not None:
            marks.append(mark)
    return sorted(marks, key=lambda mark: mark.schedule is None)


def _mark(record: Record) -> ScheduleMark | None:
    if record.value:
        return schedules.decode_mark(record.value)
    key = (record.key or b"").decode()
    if key.endswith(_FIRED):
        return None
    appid, name = names_of(key)
    return ScheduleMark(appid=appid, name=name, removed_ms=record.timestamp_ms)
