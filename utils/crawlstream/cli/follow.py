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
from crawlstream.errors import CrawlstreamError
from crawlstream.model.crawl import CrawlKey
from crawlstream.tasks import end

ENDINGS = ("crawl_finished", "crawl_stopped", "crawl_expired")
LATE_RESULTS_S = 20.0
"""An ending counts its results; they are on their topic already, and so read within this."""

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
    accepted: bool = False
    """Whether the cluster has taken at least one seed."""
    refused: dict[str, str] = field(default_factory=dict)
    """Seeds that were refused: uuid of the request -> why."""
    last_url: str = ""
    ending: Mapping[str, Any] | None = None
    """The event that ended the crawl; None while it runs, and if no seed was taken at all."""

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

    async def run(self) -> Progress:
        """Return when the crawl has ended and every result that its ending counts is here.

        KafkaUnavailable; CrawlstreamError if counted results do not come.
        """
        topics = self._settings.topics
        names = (topics.crawled, topics.events, topics.outbound)
        starts = dict(zip(names, await ends_of(self._settings, *names), strict=True))
        await send(self._settings, self._requests)
        readers = [
            asyncio.create_task(self._results(topics.crawled, starts)),
            asyncio.create_task(self._events(topics.events, starts)),
            asyncio.create_task(self._replies(topics.outbound, starts)),
        ]
        try:
            await self._until_ended(readers)
        finally:
            await end(readers)
        return self.progress

    async def _until_ended(self, readers: Sequence[asyncio.Task[None]]) -> None:
        results = readers[0]
        done, _ = await asyncio.wait(readers, return_when=asyncio.FIRST_COMPLETED)
        for reader in done:
            reader.result()
        if self.progress.ending is None or self._complete():
            return
        try:
            await asyncio.wait_for(results, LATE_RESULTS_S)
        except TimeoutError:
            raise CrawlstreamError(
                f"the crawl ended with {self._announced()} results,"
                f" but only {self.progress.results} of them can be read"
            ) from None

    def _announced(self) -> int:
        ending = self.progress.ending
        return int(ending["counters"]["done"]) if ending else 0

    def _complete(self) -> bool:
        return self.progress.ending is not None and self.progress.results >= self._announced()

    async def _own(
        self, topic: str, starts: Mapping[str, Mapping[int, int]]
    ) -> AsyncIterator[tuple[Record, dict[str, Any]]]:
        """Records about this crawl; the firehose carries others too."""
        mark = self._crawl.crawlid.encode()
        async for record in read_topic(self._settings.KAFKA_HOSTS, topic, offsets=starts[topic]):
            if record.value and mark in record.value:
                value = orjson.loads(record.value)
                if (value.get("appid"), value.get("crawlid")) == (
                    self._crawl.appid,
                    self._crawl.crawlid,
                ):
                    yield record, value

    async def _results(self, topic: str, starts: Mapping[str, Mapping[int, int]]) -> None:
        async for record, result in self._own(topic, starts):
            self._note_result(record, result)
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

    async def _events(self, topic: str, starts: Mapping[str, Mapping[int, int]]) -> None:
        async for _, event in self._own(topic, starts):
            if event["event"] == "page_failed" and event["id"] not in self._failed:
                self._failed.add(event["id"])
                self.progress.failed[event["reason"]] += 1
            if event["event"] in ENDINGS:
                self.progress.ending = event
                return

    async def _replies(self, topic: str, starts: Mapping[str, Mapping[int, int]]) -> None:
        """Seeds taken and refused; ends when all of them were refused."""
        async for _, reply in self._own(topic, starts):
            if reply.get("action") == "accepted":
                self.progress.accepted = True
            elif reply.get("action") == "rejected" and (why := refusal(reply)):
                self.progress.refused[str(reply.get("uuid"))] = why
                if len(self.progress.refused) == len(self._requests):
                    return
