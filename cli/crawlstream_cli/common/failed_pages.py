"""Pages of a run that failed, by reason, from a bounded part of the events topic."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from crawlstream.bus.connect import Kafka
from crawlstream.bus.tail import end_offsets, read_topic
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.event import CrawlEvent, PageFailed
from crawlstream.model.run_history import CrawlRun
from crawlstream.wire import events
from rest_service.runs.history import MOST_EVENTS, with_event


@dataclass(slots=True)
class Failures:
    """Failed pages of a run, as far as the events topic has it."""

    run: CrawlRun
    counts: Counter[str] = field(default_factory=Counter)
    """Failed pages by reason."""
    examples: dict[str, list[PageFailed]] = field(default_factory=dict)
    """The first of them by reason."""
    is_complete: bool = True
    """True if all events were read; otherwise there may be more failures."""
    seen: set[str] = field(default_factory=set)
    """Ids of the pages: an event may be on the topic twice."""

    def note(self, page: PageFailed, most: int) -> None:
        """Count a page, and keep it if it is one of the first ``most`` of its reason."""
        if page.id in self.seen:
            return
        self.seen.add(page.id)
        self.counts[page.reason] += 1
        kept = self.examples.setdefault(page.reason, [])
        if len(kept) < most:
            kept.append(page)


async def read_failures(
    kafka: Kafka,
    topic: str,
    crawl: CrawlKey,
    *,
    run: int | None,
    examples: int,
    most_s: float,
) -> Failures | None:
    """Return the failures of a run, of the latest without a number; None: there is no such run.

    Raise KafkaUnavailable.
    """
    ends = await end_offsets(kafka, topic)
    share = -(-MOST_EVENTS // len(ends))
    start = {number: max(0, end - share) for number, end in ends.items()}
    is_complete, found = not any(start.values()), None
    records = read_topic(kafka, topic, offsets=start, follow=False)
    try:
        async with asyncio.timeout(most_s), aclosing(records) as reading:
            async for record in reading:
                event = _event_of(record.value or b"", crawl)
                if event is None or (run is not None and event.run != run):
                    continue
                if found is None or event.run > found.run.run:
                    found = Failures(CrawlRun(crawl=crawl, run=event.run))
                if event.run == found.run.run:
                    _note(found, event, examples)
    except TimeoutError:
        is_complete = False
    return None if found is None else replace(found, is_complete=is_complete)


def _note(found: Failures, event: CrawlEvent | PageFailed, examples: int) -> None:
    if isinstance(event, PageFailed):
        found.note(event, examples)
    else:
        found.run = with_event(found.run, event)


def _event_of(raw: bytes, crawl: CrawlKey) -> CrawlEvent | PageFailed | None:
    failed = events.decode_page_failed(raw)
    if failed is not None:
        return failed if failed.crawl == crawl else None
    return events.decode_crawl_event(raw, crawl)
