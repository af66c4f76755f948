"""Stats requests: wishes for counters, answered by redis-monitor."""

from __future__ import annotations

from crawlstream.bus.records import Record
from crawlstream.model.effects import Command
from crawlstream.model.request import StatsRequest
from crawlstream.wire import requests
from crawlstream.wire.requests import STATS
from kafka_monitor.plugins.built_in_handler import BuiltInHandler


class StatsHandler(BuiltInHandler, kind=STATS):
    """Passes a wish for counters on."""

    async def handle(self, request: StatsRequest, record: Record) -> Command:
        """The command ``stats``."""
        return Command(
            offset=record.offset,
            timestamp_ms=record.timestamp_ms,
            name="stats",
            request=requests.encode(request),
        )
