"""One crawl from its first request to its ending, as a client sees it on the topics."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from crawlstream.boot.settings import Settings
from crawlstream.bus.records import Record
from crawlstream.bus.tail import read_topic
from crawlstream.cli.ask import ends_of, refusal, send
from crawlstream.model.crawl import CrawlKey
from crawlstream.tasks import end

ENDINGS = ("crawl_finished", "crawl_stopped", "crawl_expired")
OnResult = Callable[[bytes, Mapping[str, Any]], None]
"""Called with each result once: the record's bytes, and the same decoded."""


@dataclass(slots=True)
class Progress:
    """What a crawl has brought so far."""

    results: int = 0
    repeats: int = 0
    """Results that came again under the same id (a process died in between)."""
    statuses: Counter[int] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    """Pages that ended without a result, by reason."""
    details: dict[str, str] = field(default_factory=dict)
    """What the first page that failed for a reason told about it, where it did."""
    accepted: bool = False
    """Whether the cluster has taken at least one seed."""
    refused: dict[str, str] = field(default_factory=dict)
    """Seeds that were refused: uuid of the request -> why."""
    last_url: str = ""
    ending: Mapping[str, Any] | None = None
    """The event that ended the crawl; None while it runs, and if no seed was taken at all."""

    @property
    def silent(self) -> int:
        """Pages that are done, yet their spider has published nothing of them."""
        return max(self.announced - self.results, 0)

    @property
    def announced(self) -> int:
        """Pages that are done, as the ending counts them; 0 before it."""
        return int(self.ending["counters"]["done"]) if self.ending else 0

    @property
    def finished(self) -> bool:
        """Whether the crawl came to its own end, with every seed taken."""
        return bool(self.ending and self.ending["event"] == "crawl_finished" and not self.refused)


class Follower:
    """Feeds the seeds of a new crawl and follows it; :attr:`progress` is live meanwhile.

    ``requests`` share ``crawl`` and carry a uuid each. No other crawl of the same name may run.
    """

    def __init__(
        self,
        settings: Settings,
        crawl: CrawlKey,
        requests: Sequence[Mapping[str, Any]],
        *,
        on_result: OnResult,
    ) -> None:
        self.progress = Progress()
        self._settings = settings
        self._crawl = crawl
        self._requests = requests
        self._on_result = on_result
        self._seen: set[bytes] = set()
        self._failed: set[str] = set()
        self._next: dict[int, int] = {}

    async def run(self) -> Progress:
        """Return when the crawl has ended and all its results are here; or KafkaUnavailable."""
        topics = self._settings.topics
        names = (topics.crawled, topics.events, topics.outbound)
        starts = dict(zip(names, await ends_of(self._settings, *names), strict=True))
        self._next = dict(starts[topics.crawled])
        await send(self._settings, self._requests)
        readers = [
            asyncio.create_task(self._results(topics.crawled, starts[topics.crawled])),
            asyncio.create_task(self._events(topics.events, starts[topics.events])),
            asyncio.create_task(self._replies(topics.outbound, starts[topics.outbound])),
        ]
        try:
            await self._until_ended(readers)
        finally:
            await end(readers)
        return self.progress

    async def _until_ended(self, readers: Sequence[asyncio.Task[None]]) -> None:
        done, _ = await asyncio.wait(readers, return_when=asyncio.FIRST_COMPLETED)
        for reader in done:
            reader.result()
        if self.progress.ending is None or self._complete():
            return
        # Kafka had every result before the ending, so all that come are on their topic.
        await end([readers[0]])
        await self._results(self._settings.topics.crawled, self._next, follow=False)

    def _complete(self) -> bool:
        return self.progress.ending is not None and not self.progress.silent

    async def _own(
        self, topic: str, offsets: Mapping[int, int], *, follow: bool = True
    ) -> AsyncIterator[tuple[Record, dict[str, Any]]]:
        """Records about this crawl; the firehose carries others too."""
        mark = self._crawl.crawlid.encode()
        hosts = self._settings.KAFKA_HOSTS
        async for record in read_topic(hosts, topic, offsets=offsets, follow=follow):
            if record.value and mark in record.value:
                value = orjson.loads(record.value)
                if (value.get("appid"), value.get("crawlid")) == (
                    self._crawl.appid,
                    self._crawl.crawlid,
                ):
                    yield record, value

    async def _results(
        self, topic: str, offsets: Mapping[int, int], *, follow: bool = True
    ) -> None:
        async for record, result in self._own(topic, dict(offsets), follow=follow):
            self._note_result(record, result)
            self._next[record.partition] = record.offset + 1
            if self._complete():
                return

    def _note_result(self, record: Record, result: Mapping[str, Any]) -> None:
        key = record.key or str(result["id"]).encode()
        if key in self._seen:
            self.progress.repeats += 1
            return
        self._seen.add(key)
        self.progress.results += 1
        self.progress.statuses[result["status_code"]] += 1
        self.progress.last_url = result["url"]
        self._on_result(record.value or b"", result)

    async def _events(self, topic: str, offsets: Mapping[int, int]) -> None:
        async for _, event in self._own(topic, offsets):
            if event["event"] == "page_failed" and event["id"] not in self._failed:
                self._failed.add(event["id"])
                self.progress.failed[event["reason"]] += 1
                if "detail" in event:
                    self.progress.details.setdefault(event["reason"], event["detail"])
            if event["event"] in ENDINGS:
                self.progress.ending = event
                return

    async def _replies(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Seeds taken and refused; ends when all of them were refused."""
        async for _, reply in self._own(topic, offsets):
            if reply.get("action") == "accepted":
                self.progress.accepted = True
            elif reply.get("action") == "rejected" and (why := refusal(reply)):
                self.progress.refused[str(reply.get("uuid"))] = why
                if len(self.progress.refused) == len(self._requests):
                    return
