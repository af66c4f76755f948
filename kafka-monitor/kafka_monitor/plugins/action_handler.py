"""Action requests: what they do to a crawl is done in record order; redis-monitor answers all."""

from __future__ import annotations

from crawlstream.bus.records import Record
from crawlstream.model.effects import Command
from crawlstream.model.request import STEERING, ActionRequest
from crawlstream.plugins.seeds import check_occasion
from crawlstream.wire import requests
from crawlstream.wire.requests import ACTION
from kafka_monitor.plugins.built_in_handler import BuiltInHandler


class ActionHandler(BuiltInHandler, kind=ACTION):
    """Passes an action on; what it does to a crawl takes effect with the record's position."""

    async def handle(self, request: ActionRequest, record: Record) -> Command:
        """The command, named like the action; InvalidRequest refuses its occasion."""
        if request.occasion is not None:
            check_occasion(request.occasion, record)
        is_complete = request.name != "reprioritize" or request.priority is not None
        return Command(
            offset=record.offset,
            timestamp_ms=record.timestamp_ms,
            name=request.name,
            request=requests.encode(request),
            crawl=request.crawl if request.name in STEERING and is_complete else None,
            priority=request.priority,
            until=request.until or 0 if request.name == "pause" else 0,
            appid=request.appid,
            occasion=request.occasion,
        )
