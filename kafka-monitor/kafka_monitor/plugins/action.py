"""Action requests: stop takes effect here, in record order; redis-monitor answers all of them."""

from __future__ import annotations

from crawlstream.bus.records import Record
from crawlstream.model.effects import Command
from crawlstream.model.request import ActionRequest
from crawlstream.wire import requests
from crawlstream.wire.requests import ACTION
from kafka_monitor.plugins.door import Bundled


class ActionHandler(Bundled, kind=ACTION):
    """Passes an action on; the crawl that a stop names is closed with the record's position."""

    async def handle(self, request: ActionRequest, record: Record) -> Command:
        """The command, named like the action."""
        return Command(
            offset=record.offset,
            timestamp_ms=record.timestamp_ms,
            name=request.name,
            request=requests.encode(request),
            crawl=request.crawl if request.name == "stop" else None,
        )
