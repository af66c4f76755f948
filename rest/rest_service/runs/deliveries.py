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
_MOST_RECENT = 20_000

Run = Mapping[str, Any]
"""An event `run_delivered`."""


class Deliveries(NamedTuple):
    """Latest runs that a pipeline has reported."""

    runs: Sequence[Run]
    """Events `run_delivered`, one per run, the latest first."""
    is_complete: bool
    """True if all events were read and all runs are listed."""


async def read_deliveries(
    kafka: Kafka,
    topic: str,
    pipeline: str | None = None,
    *,
    crawlid: str | None = None,
    most_events: int = MOST_EVENTS,
    most_s: float = MOST_S,
) -> Deliveries:
    """Return the runs of a pipeline, or of all, in the latest events, or those of ``crawlid``.

    Raise KafkaUnavailable.
    """
    ends = await end_offsets(kafka, topic)
    share = -(-most_events // len(ends))
    start = {number: max(0, end - share) for number, end in ends.items()}
    is_complete = not any(start.values())
    found: dict[tuple[Any, ...], Run] = {}
    records = read_topic(kafka, topic, offsets=start, follow=False)
    try:
        async with asyncio.timeout(most_s), aclosing(records) as reading:
            async for record in reading:
                told = events.decode_delivery(record.value or b"", pipeline)
                if told is not None and crawlid in (None, told["crawlid"]):
                    found[tuple(told[name] for name in _RUN)] = told
    except TimeoutError:
        is_complete = False
    latest = sorted(found.values(), key=lambda told: -told["server_time"])
    return Deliveries(latest[:MOST_RUNS], is_complete and len(latest) <= MOST_RUNS)


async def last_runs(kafka: Kafka, topic: str, *, most_s: float) -> Mapping[str, Run]:
    """Return the last run of each pipeline in the latest events; raise KafkaUnavailable.

    The keys are the names of the pipelines, including those that no process runs at present.
    """
    found = await read_deliveries(kafka, topic, most_events=_MOST_RECENT, most_s=most_s)
    return {run["pipeline"]: run for run in reversed(found.runs)}


_RUN = ("pipeline", "edition", "appid", "crawlid", "spiderid", "run")
