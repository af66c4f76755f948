"""The runs of a crawl, from a bounded part of the events topic."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace

from crawlstream.bus.connect import Kafka
from crawlstream.bus.tail import end_offsets, read_topic
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.event import CrawlEvent
from crawlstream.model.run_history import CrawlRun, RunHistory
from crawlstream.wire import events

MOST_EVENTS = 1_000_000
"""Number of latest events of the topic that are read."""
MOST_S = 30.0


async def read_history(
    kafka: Kafka,
    topic: str,
    crawl: CrawlKey,
    *,
    most_events: int = MOST_EVENTS,
    most_s: float = MOST_S,
) -> RunHistory:
    """Return the runs in the latest events of ``topic``; raise KafkaUnavailable."""
    ends = await end_offsets(kafka, topic)
    share = -(-most_events // len(ends))
    start = {number: max(0, end - share) for number, end in ends.items()}
    is_complete = not any(start.values())
    found: dict[int, CrawlRun] = {}
    records = read_topic(kafka, topic, offsets=start, follow=False)
    try:
        async with asyncio.timeout(most_s), aclosing(records) as reading:
            async for record in reading:
                event = events.decode_crawl_event(record.value or b"", crawl)
                if event is not None:
                    found[event.run] = with_event(found.get(event.run), event)
    except TimeoutError:
        is_complete = False
    return RunHistory(sorted(found.values(), key=lambda one: -one.run), is_complete)


def with_event(known: CrawlRun | None, event: CrawlEvent) -> CrawlRun:
    """Return a run with the data of an event, in any order of events."""
    known = known or CrawlRun(crawl=event.crawl, run=event.run)
    if event.event == "crawl_started":
        return replace(known, started_at=event.server_time)
    return replace(
        known,
        state=event.event.removeprefix("crawl_"),
        started_at=known.started_at or event.started_at,
        ended_at=event.server_time,
        counters=event.counters,
        reasons=event.reasons,
    )
