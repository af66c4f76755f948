"""The runs that a pipeline has reported as delivered, from a bounded part of the events topic."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

from crawlstream.bus.connect import Kafka
from crawlstream.bus.tail import end_offsets, read_topic
from crawlstream.wire import events

MOST_EVENTS = 200_000
"""Number of latest events of the topic that are read."""
MOST_S = 10.0
MOST_RUNS = 100


class Deliveries(NamedTuple):
    """Latest runs that a pipeline has reported."""

    runs: Sequence[Mapping[str, Any]]
    """Events `run_delivered`, one per run, the latest first."""
    is_complete: bool
    """True if all events were read and all runs are listed."""


async def read_deliveries(
    kafka: Kafka, topic: str, pipeline: str, *, crawlid: str | None = None
) -> Deliveries:
    """Return the runs of a pipeline in the latest events, or those of ``crawlid``.

    Raise KafkaUnavailable.
    """
    ends = await end_offsets(kafka, topic)
    share = -(-MOST_EVENTS // len(ends))
    start = {number: max(0, end - share) for number, end in ends.items()}
    is_complete = not any(start.values())
    found: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    records = read_topic(kafka, topic, offsets=start, follow=False)
    try:
        async with asyncio.timeout(MOST_S), aclosing(records) as reading:
            async for record in reading:
                told = events.decode_delivery(record.value or b"", pipeline)
                if told is not None and crawlid in (None, told["crawlid"]):
                    found[tuple(told[name] for name in _RUN)] = told
    except TimeoutError:
        is_complete = False
    latest = sorted(found.values(), key=lambda told: -told["server_time"])
    return Deliveries(latest[:MOST_RUNS], is_complete and len(latest) <= MOST_RUNS)


_RUN = ("edition", "appid", "crawlid", "spiderid", "run")
