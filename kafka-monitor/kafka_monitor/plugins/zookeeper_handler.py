"""ZooKeeper requests: edits of the throttle rules, made and answered by redis-monitor."""

from __future__ import annotations

from crawlstream.bus.records import Record
from crawlstream.model.effects import Command
from crawlstream.model.request import ZookeeperRequest
from crawlstream.wire import requests
from crawlstream.wire.requests import ZOOKEEPER
from kafka_monitor.plugins.built_in_handler import BuiltInHandler


class ZookeeperHandler(BuiltInHandler, kind=ZOOKEEPER):
    """Passes an edit of the throttle rules on."""

    async def handle(self, request: ZookeeperRequest, record: Record) -> Command:
        """The command ``zookeeper``."""
        return Command(
            offset=record.offset,
            timestamp_ms=record.timestamp_ms,
            name="zookeeper",
            request=requests.encode(request),
        )
