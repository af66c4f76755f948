"""A crawl from its first request to its ending, as a client sees it on the topics."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from crawlstream.boot.clients import kafka_of
from crawlstream.boot.settings import Settings
from crawlstream.bus.records import Record
from crawlstream.bus.tail import offsets_since, read_topic
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.result import REQUISITE
from crawlstream.tasks import end
from crawlstream.wire import jsontext
from crawlstream_cli.common.cluster_requests import ends_of, refusal, send

ENDINGS = ("crawl_finished", "crawl_stopped", "crawl_expired")
FIRST_FAILED = 3
"""Number of failed pages that are kept with their URLs."""
_CLOCKS_DIFFER_MS = 60_000
"""Maximum time that clocks of writers of records may be behind the frontier's."""
OnResult = Callable[[bytes, Mapping[str, Any]], None]
"""Called with each result once: the record's bytes, and the same decoded."""


@dataclass(slots=True)
class CrawlProgress:
    """Results and events of a crawl so far."""

    results: int = 0
    repeats: int = 0
    """Results that came again under the same id (a process died in between)."""
    requisites: int = 0
    """Requisites of its pages, where these are asked for."""
    body_bytes: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    """Pages that ended without a result, by reason."""
    details: dict[str, str] = field(default_factory=dict)
    """Details of the first page that failed for a reason, where it had any."""
    first_failed: dict[str, str] = field(default_factory=dict)
    """The first pages that ended without a result: URL -> reason."""
    accepted: bool = False
    """True if the cluster has accepted at least one seed."""
    refused: dict[str, str] = field(default_factory=dict)
    """Seeds that were refused: uuid of the request -> why."""
    last_url: str = ""
    ending: Mapping[str, Any] | None = None
    """The event that ended the crawl; None while it runs, and if no seed was taken at all."""

    @property
    def ended(self) -> int:
        """Pages that are over, with a result or without."""
        return self.results + self.failed.total()

    @property
    def has_fetched(self) -> bool:
        """Return whether any page came; its spider may have published nothing of it."""
        return bool(self.results or self.announced)

    @property
    def silent(self) -> int:
        """Pages that are done, yet their spider has published nothing of them."""
        return max(self.announced - self.results, 0)

    @property
    def announced(self) -> int:
        """Pages that are done, as the ending counts them; 0 before it."""
        return int(self.ending["counters"]["done"]) if self.ending else 0

    @property
    def untold(self) -> int:
        """Pages that have failed, as the ending counts them, and whose events are not here."""
        counted = int(self.ending["counters"]["failed"]) if self.ending else 0
        return max(counted - self.failed.total(), 0)

    @property
    def finished(self) -> bool:
        """Return whether the crawl ended by itself, with every seed accepted."""
        return bool(self.ending and self.ending["event"] == "crawl_finished" and not self.refused)


class Follower:
    """Feeds the seeds of a new crawl and follows it, or one that runs; :attr:`progress` is live.

    ``requests`` share ``crawl`` and carry a uuid each. No other crawl of the same name may run.
    """

    def __init__(
        self,
        settings: Settings,
        crawl: CrawlKey,
        requests: Sequence[Mapping[str, Any]],
        *,
        on_result: OnResult,
        with_requisites: bool = False,
    ) -> None:
        """``with_requisites``: ``on_result`` is also called with those of the pages."""
        self.progress = CrawlProgress()
        self._settings = settings
        self._crawl = crawl
        self._requests = requests
        self._on_result = on_result
        self._seen: set[bytes] = set()
        self._failed: set[str] = set()
        self._next: dict[str, dict[int, int]] = {}
        """Topic -> offset of the next record, by partition."""
        self._further = (settings.topics.requisites,) if with_requisites else ()
        self._run: int | None = None
        """The run that is followed, where there may have been others."""

    async def run(self) -> CrawlProgress:
        """Return when the crawl has ended and all its results are here; or KafkaUnavailable."""
        topics = self._settings.topics
        names = (topics.crawled, topics.events, *self._further)
        outbound, *ends = await ends_of(self._settings, topics.outbound, *names)
        await send(self._settings, self._requests)
        starts = dict(zip(names, ends, strict=True))
        return await self._follow(starts, self._refusals(topics.outbound, outbound))

    async def feed(self, *, patience_s: float) -> CrawlProgress:
        """Feed only; return when each seed is accepted or refused, or the time is over."""
        topic = self._settings.topics.outbound
        (start,) = await ends_of(self._settings, topic)
        await send(self._settings, self._requests)
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await self._answers(topic, start)
        return self.progress

    async def attach(self, run: int, began_ms: int) -> CrawlProgress:
        """Feed nothing, and follow a run that began at ``began_ms`` from its beginning."""
        self._run, self.progress.accepted = run, True
        kafka, topics = kafka_of(self._settings), self._settings.topics
        await ends_of(self._settings, topics.crawled)
        starts = {
            topic: await offsets_since(kafka, topic, began_ms - _CLOCKS_DIFFER_MS)
            for topic in (topics.crawled, topics.events, *self._further)
        }
        return await self._follow(starts)

    async def _follow(
        self, starts: Mapping[str, Mapping[int, int]], *more: Coroutine[Any, Any, None]
    ) -> CrawlProgress:
        """``starts``: offsets to read from, by topic and partition."""
        topics = self._settings.topics
        self._next = {topic: dict(offsets) for topic, offsets in starts.items()}
        work = [self._results(topics.crawled, starts[topics.crawled])]
        work += [self._events(topics.events, starts[topics.events]), *more]
        work += [self._requisites(topic, follow=True) for topic in self._further]
        readers = [asyncio.create_task(one) for one in work]
        try:
            await self._until_ended(readers)
        finally:
            await end(readers)
        # Kafka had the requisites of each page before its result.
        for topic in self._further:
            await self._requisites(topic, follow=False)
        return self.progress

    async def _until_ended(self, readers: Sequence[asyncio.Task[None]]) -> None:
        done, _ = await asyncio.wait(readers, return_when=asyncio.FIRST_COMPLETED)
        for reader in done:
            reader.result()
        if self.progress.ending is None or self._complete():
            return
        # Kafka had every record before the ending, so all that come are on their topics; those of
        # other partitions may be read after it.
        await end([readers[0]])
        topics = self._settings.topics
        if self.progress.silent:
            await self._results(topics.crawled, self._next[topics.crawled], follow=False)
        if self.progress.untold:
            await self._events(topics.events, self._next[topics.events], follow=False)

    def _complete(self) -> bool:
        progress = self.progress
        return progress.ending is not None and not progress.silent and not progress.untold

    async def _own(
        self, topic: str, offsets: Mapping[int, int], *, follow: bool = True
    ) -> AsyncIterator[tuple[Record, dict[str, Any]]]:
        """Records about this crawl; the firehose carries others too."""
        mark = self._crawl.crawlid.encode()
        kafka = kafka_of(self._settings)
        async for record in read_topic(kafka, topic, offsets=offsets, follow=follow):
            if record.value and mark in record.value:
                value: Any = jsontext.loads(record.value)
                if (value.get("appid"), value.get("crawlid")) == (
                    self._crawl.appid,
                    self._crawl.crawlid,
                ) and self._run in (None, value.get("run")):
                    yield record, value

    async def _results(
        self, topic: str, offsets: Mapping[int, int], *, follow: bool = True
    ) -> None:
        async for record, result in self._own(topic, dict(offsets), follow=follow):
            self._note_result(record, result)
            self._next[topic][record.partition] = record.offset + 1
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
        self.progress.body_bytes += result["body_size"]
        self.progress.last_url = result["url"]
        self._on_result(record.value or b"", result)

    async def _requisites(self, topic: str, *, follow: bool) -> None:
        async for record, value in self._own(topic, dict(self._next[topic]), follow=follow):
            self._next[topic][record.partition] = record.offset + 1
            key = record.key or str(value["id"]).encode()
            if key not in self._seen:
                self._seen.add(key)
                self.progress.requisites += value.get("kind") == REQUISITE
                self._on_result(record.value or b"", value)

    async def _events(self, topic: str, offsets: Mapping[int, int], *, follow: bool = True) -> None:
        async for record, event in self._own(topic, dict(offsets), follow=follow):
            if event["event"] == "page_failed" and event["id"] not in self._failed:
                self._failed.add(event["id"])
                self._note_failure(event)
            if event["event"] in ENDINGS:
                self.progress.ending = event
            self._next[topic][record.partition] = record.offset + 1
            if self.progress.ending and follow:
                return

    def _note_failure(self, event: Mapping[str, Any]) -> None:
        progress, reason = self.progress, event["reason"]
        progress.failed[reason] += 1
        if "detail" in event:
            progress.details.setdefault(reason, event["detail"])
        if len(progress.first_failed) < FIRST_FAILED:
            progress.first_failed[event["url"]] = reason

    async def _refusals(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Ends when all seeds were refused."""
        async for _ in self._replies(topic, offsets):
            if len(self.progress.refused) == len(self._requests):
                return

    async def _answers(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Ends when all seeds were taken or refused."""
        async for taken in self._replies(topic, offsets):
            if len(taken) + len(self.progress.refused) == len(self._requests):
                return

    async def _replies(self, topic: str, offsets: Mapping[int, int]) -> AsyncIterator[set[str]]:
        """Note which seeds are taken and refused; after each reply, those that were taken."""
        taken = set()
        async for _, reply in self._own(topic, offsets):
            if reply.get("action") == "accepted":
                taken.add(str(reply.get("uuid")))
                self.progress.accepted = True
            elif reply.get("action") == "rejected" and (why := refusal(reply)):
                self.progress.refused[str(reply.get("uuid"))] = why
            yield taken
