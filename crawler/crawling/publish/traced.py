"""Publisher with traces: results of sampled pages name their span, and their steps are timed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from crawling.lease.traced import TracedLeases
from crawling.publish.publisher import Publisher
from crawlstream.boot.settings import Settings
from crawlstream.bus.protocols import Sink
from crawlstream.bus.records import Out
from crawlstream.model.result import CrawlResult

T = TypeVar("T")


class TracedPublisher(Publisher):
    """Publisher of a process with traces."""

    def __init__(self, sink: Sink, settings: Settings, leases: TracedLeases) -> None:
        super().__init__(sink, settings)
        self._leases = leases

    async def _publish(
        self, result: CrawlResult, send: Callable[[Sequence[Out]], Awaitable[T]]
    ) -> T:
        trace, clock = self._leases.trace_of(result.id), self._leases.clock
        if trace is None:
            return await super()._publish(result, send)
        trace.publish_at = trace.publish_at or clock()
        sent = await super()._publish(result, send)
        trace.published_at = clock()
        return sent

    def _record(self, topic: str, result: CrawlResult, value: bytes) -> Out:
        record = super()._record(topic, result, value)
        if (trace := self._leases.trace_of(result.id)) is None:
            return record
        return replace(record, headers=(("traceparent", trace.header.encode()),))
