"""Charges of sites for the runs that ended lately, from a bounded part of the events."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import aclosing
from typing import NamedTuple

from crawlstream.bus.connect import Kafka
from crawlstream.bus.tail import offsets_since, read_topic
from crawlstream.wire import events

MOST_S = 60.0


class RunCharges(NamedTuple):
    """Sums over runs that have ended."""

    pages: int
    """Pages that are done."""
    charged: Mapping[str, int]
    """Charges of sites for them by currency, in millionths."""

    def per_million_pages(self) -> Mapping[str, float]:
        """Return the charges for a million pages, by currency; empty without pages."""
        if not self.pages:
            return {}
        return {currency: sum_ / self.pages for currency, sum_ in sorted(self.charged.items())}


async def read_charges(
    kafka: Kafka, topic: str, since_ms: int, *, most_s: float = MOST_S
) -> RunCharges:
    """Add up the endings since a time (epoch ms), each run once; raise KafkaUnavailable.

    If the events are too many for ``most_s``, the later ones are not read.
    """
    start = await offsets_since(kafka, topic, since_ms)
    seen, pages, charged = set[tuple[object, ...]](), 0, Counter[str]()
    records = read_topic(kafka, topic, offsets=start, follow=False)
    try:
        async with asyncio.timeout(most_s), aclosing(records) as reading:
            async for record in reading:
                ending = events.decode_crawl_event(record.value or b"")
                if ending is None or (ending.crawl, ending.run) in seen or not ending.counters:
                    continue
                seen.add((ending.crawl, ending.run))
                pages += ending.counters.get("done", 0)
                charged.update(ending.reasons.get("charged", {}))
    except TimeoutError:
        pass
    return RunCharges(pages, charged)
