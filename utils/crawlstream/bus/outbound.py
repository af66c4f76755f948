"""Records that both monitors write: replies, events, dead letters, refusals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crawlstream.bus.protocols import Sink
from crawlstream.bus.records import Out
from crawlstream.keys import Topics


@dataclass(frozen=True, slots=True)
class Outbound:
    """Where records go: each reply to the firehose, and to its application's topic if so set."""

    sink: Sink
    topics: Topics
    per_app: bool = False
    """True if each application has a topic of its own besides the firehose."""

    def reply(self, appid: str, body: bytes) -> Sequence[Out]:
        """Return the records that carry one reply."""
        firehose = Out(self.topics.outbound, body)
        own = self.topics.for_app(self.topics.outbound, appid) if self.per_app else None
        return [firehose] if own is None else [firehose, Out(own, body, optional=True)]

    async def send(self, records: Sequence[Out]) -> None:
        """Return when Kafka has all of them; KafkaUnavailable if not, then repeat."""
        await self.sink.send(records)
