"""The one place that decides what sinks and sources are: Kafka's.

Another transport is another pair of classes that keep the promises of
:mod:`~crawlstream.bus.protocols`, made here.
"""

from __future__ import annotations

from collections.abc import Collection

from crawlstream.bus.connect import Kafka
from crawlstream.bus.protocols import Decide, Locate, Sink, Source
from crawlstream.bus.records import DEFAULT_LIMITS, ReadLimits
from crawlstream.bus.sink import KafkaSink
from crawlstream.bus.source import KafkaSource
from crawlstream.bus.writer import LINGER_MS


def make_sink(kafka: Kafka, *, linger_ms: int = LINGER_MS, topics: Collection[str] = ()) -> Sink:
    """A sink of the records that a process writes; see :class:`KafkaSink` for the options."""
    return KafkaSink(kafka, linger_ms=linger_ms, topics=topics)


def make_source(
    kafka: Kafka,
    topic: str,
    *,
    group: str,
    locate: Locate,
    on_out_of_range: Decide,
    limits: ReadLimits = DEFAULT_LIMITS,
) -> Source:
    """A source of one topic, as a member of ``group``."""
    return KafkaSource(
        kafka, topic, group=group, locate=locate, on_out_of_range=on_out_of_range, limits=limits
    )
