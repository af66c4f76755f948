"""Changes between two runs: pages that are new, gone, or have another response.

The pages of both are read from the results topic and kept as a status and a hash of the body. The
memory is bounded: if a run has too many pages, a sample of all URLs is compared, the same in both
runs, chosen by a hash of the URL. The share of the sample is returned; within it, all figures are
exact.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from zlib import crc32

from crawlstream.bus.connect import Kafka
from crawlstream.bus.tail import offsets_since, read_topic
from crawlstream.model.run_history import CHANGES, Comparison, CrawlRun, PageChange
from rest_service.runs.page_digest import PageDigest, digest_of

MOST_PAGES = 100_000
"""Maximum pages of a run that are kept."""
MOST_S = 60.0
_CLOCKS_DIFFER_MS = 600_000
_BREATH = 32


class Sample:
    """Pages of two runs, for a share of all URLs that keeps each run below ``most`` pages."""

    def __init__(self, most: int) -> None:
        self.sides: tuple[dict[str, PageDigest], dict[str, PageDigest]] = ({}, {})
        self._most = most
        self._halvings = 0

    @property
    def share(self) -> float:
        """Return the share of all URLs that is kept."""
        return float(0.5**self._halvings)

    def note(self, side: int, page: PageDigest) -> None:
        """Keep a page of the run before (0) or after (1) if it is in the sample."""
        if not self._has(page.url):
            return
        kept = self.sides[side]
        kept[page.url] = page
        while len(kept) > self._most:
            self._halvings += 1
            for known in self.sides:
                for url in [url for url in known if not self._has(url)]:
                    del known[url]

    def _has(self, url: str) -> bool:
        return crc32(url.encode("utf-8", "replace")) & ((1 << self._halvings) - 1) == 0

    def changes(self) -> Mapping[str, list[PageChange]]:
        """Return all pages by their change, including ``same``."""
        before, after = self.sides
        found: dict[str, list[PageChange]] = {name: [] for name in (*CHANGES, "same")}
        for url in sorted(before.keys() | after.keys()):
            old, new = before.get(url), after.get(url)
            change = PageChange(url, old and old.status, new and new.status)
            found[_change(old, new)].append(change)
        return found


def _change(old: PageDigest | None, new: PageDigest | None) -> str:
    if old is None or new is None:
        return "new" if old is None else "gone"
    if old.status != new.status:
        return "status"
    return "same" if old.body == new.body else "content"


async def compare(
    kafka: Kafka,
    topic: str,
    before: CrawlRun,
    after: CrawlRun,
    *,
    listed: int = 100,
    most_pages: int = MOST_PAGES,
    most_s: float | None = MOST_S,
) -> Comparison:
    """Compare the results of two runs, and list the first pages of each change.

    The runs may belong to different crawls. Raise KafkaUnavailable.
    """
    sample, is_complete = Sample(most_pages), True
    try:
        async with asyncio.timeout(most_s):
            for side, run in enumerate((before, after)):
                async with aclosing(_pages(kafka, topic, run)) as found:
                    async for page in found:
                        sample.note(side, page)
    except TimeoutError:
        is_complete = False
    changes = await asyncio.to_thread(sample.changes)
    return Comparison(
        before=before,
        after=after,
        counts={name: len(pages) for name, pages in changes.items()},
        changes={name: changes[name][:listed] for name in CHANGES},
        share=sample.share,
        is_complete=is_complete,
    )


async def _pages(kafka: Kafka, topic: str, run: CrawlRun) -> AsyncGenerator[PageDigest, None]:
    """Yield the pages of a run; read the records of the topic from about its time."""
    began_ms = max(0, int(run.started_at * 1000) - _CLOCKS_DIFFER_MS)
    start, until = await offsets_since(kafka, topic, began_ms), None
    if run.ended_at is not None:
        until = await offsets_since(kafka, topic, int(run.ended_at * 1000) + _CLOCKS_DIFFER_MS)
    records = read_topic(kafka, topic, offsets=start, until=until, follow=False)
    count = 0
    async with aclosing(records) as reading:
        async for record in reading:
            raw = record.value or b""
            if (page := digest_of(raw, run.crawl, run.run)) is not None:
                yield page
                count += 1
            if count % _BREATH == 0:
                # Let other tasks run: pages are large, and there may be very many.
                await asyncio.sleep(0)
