"""Schedule requests: they take effect in record order; redis-monitor fires, and answers."""

from __future__ import annotations

from crawlstream.bus.records import Record
from crawlstream.model.effects import ScheduleChange
from crawlstream.model.request import ScheduleRequest
from crawlstream.wire import requests
from crawlstream.wire.requests import SCHEDULE
from kafka_monitor.plugins.built_in_handler import BuiltInHandler


class ScheduleHandler(BuiltInHandler, kind=SCHEDULE):
    """Has a schedule set, removed, paused, resumed, fired or shown."""

    async def handle(self, request: ScheduleRequest, record: Record) -> ScheduleChange:
        """Return the change of the schedule, with the record's position."""
        return ScheduleChange(
            offset=record.offset,
            timestamp_ms=record.timestamp_ms,
            appid=request.appid,
            name=request.name,
            do=request.do,
            request=requests.encode(request),
            schedule=request.schedule,
            most=self.limits.max_schedules,
        )
