"""Stored runs: once all pages of a run that has ended are in the store, its account is an event.

The process that reads partition 0 of the source follows `<prefix>.events`. At an ending it notes
the end of the source: every result of the run is before that, for results are acknowledged before
their page is done. When the store has passed it in all partitions, their accounts are added up,
published on `<prefix>.events`, and kept as ``runs/<run>.json``. That happens at least once: two
processes may do it, and write equal records.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

import structlog

from crawlstream.bus.connect import Kafka
from crawlstream.bus.protocols import Sink
from crawlstream.bus.records import Out, Record
from crawlstream.bus.tail import end_offsets, read_topic
from crawlstream.errors import CrawlstreamError
from crawlstream.keys import Topics
from crawlstream.model.event import CrawlEvent, RunDelivered
from crawlstream.wire import events, jsontext
from pipeline_service.metrics import begin_runs, forget_runs, note_run, note_waiting
from pipeline_service.records.account import RESERVED, Account, RecordTally, run_name, summed
from pipeline_service.sinks.sink import Kept
from pipeline_service.spec.config import Pipeline
from pipeline_service.spec.quality.expect import ItemJudge

LOOK_EVERY_S = 2.0
_AGAIN_S = 5.0
_ENDINGS = ("crawl_finished", "crawl_stopped", "crawl_expired")
_MOST_WAITING = 10_000
"""More, and endings are read no faster than one in a few seconds."""
_PLACE = "events.json"
_PLACE_EVERY_S = 30.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class WaitingEnding:
    """An ending whose pages may not all be in the store yet."""

    ending: CrawlEvent
    record: Record
    ends: Mapping[int, int]
    """Where the source ended when the ending was read, by partition."""


class RunReporter:
    """Follows the endings of runs for one pipeline."""

    def __init__(
        self,
        pipeline: Pipeline,
        kept: Kept,
        sink: Sink,
        *,
        kafka: Kafka,
        topics: Topics,
        judge: ItemJudge,
    ) -> None:
        """``judge`` says how good the items of a run are."""
        self._pipeline = pipeline
        self._judge = judge
        self._kept = kept
        self._sink = sink
        self._kafka = kafka
        self._topics = topics
        self._source = pipeline.topic(topics)
        self._waiting: list[WaitingEnding] = []
        self._next: dict[int, int] = {}
        self._kept_at = 0.0
        self._began = 0.0

    async def run(self, topic_id: Callable[[], str | None]) -> None:
        """Follow permanently, while ``topic_id`` names the source; None: no partition 0."""
        while True:
            try:
                if (name := topic_id()) is not None:
                    await self._follow(name, topic_id)
            except CrawlstreamError as error:
                log.info("report", outcome="waiting", error=str(error))
            await asyncio.sleep(_AGAIN_S)

    async def catch_up(
        self, topic_id: str, until: Mapping[int, int], ends: Mapping[int, int]
    ) -> None:
        """Report the runs whose endings come before ``until``, offsets of the events topic.

        The store has passed ``ends``, where the source ended after that.
        """
        self._next = dict(await self._begin())
        offsets, topic = dict(self._next), self._topics.events
        records = read_topic(self._kafka, topic, offsets=offsets, until=until, follow=False)
        async with aclosing(records) as reading:
            async for record in reading:
                if record.offset < until.get(record.partition, 0):
                    await self._note(record, ends)
        await self._settle(topic_id)
        await self._keep_place()

    async def _follow(self, name: str, topic_id: Callable[[], str | None]) -> None:
        self._waiting.clear()
        self._began = time.time()
        begin_runs(self._pipeline.name)
        self._next = dict(await self._begin())
        reading = asyncio.create_task(self._read())
        try:
            while topic_id() == name and not reading.done():
                await self._settle(name)
                await asyncio.sleep(LOOK_EVERY_S)
            if reading.done():
                reading.result()
        finally:
            reading.cancel()
            await asyncio.wait([reading])
            forget_runs(self._pipeline.name)

    async def _begin(self) -> Mapping[int, int]:
        """Return the offset of the process before; else the beginning or end, as the pipeline."""
        raw = await asyncio.to_thread(self._kept.get, _PLACE)
        if raw is not None:
            try:
                told = jsontext.loads(raw)
                if isinstance(told, dict):
                    return {int(number): int(told[number]) for number in told}
            except (TypeError, ValueError):
                log.warning("report", outcome="place_unreadable")
        if self._pipeline.start == "earliest":
            return {}
        return await end_offsets(self._kafka, self._topics.events)

    async def _read(self) -> None:
        records = read_topic(self._kafka, self._topics.events, offsets=dict(self._next))
        async with aclosing(records) as reading:
            async for record in reading:
                await self._note(record)
                if len(self._waiting) >= _MOST_WAITING:
                    await asyncio.sleep(LOOK_EVERY_S)

    async def _note(self, record: Record, ends: Mapping[int, int] | None = None) -> None:
        """Note the ending of a run: it is reported when the store has passed ``ends`` (now)."""
        ending = events.decode_crawl_event(record.value or b"")
        if ending and ending.event in _ENDINGS and self._is_ours(ending):
            ends = await end_offsets(self._kafka, self._source) if ends is None else ends
            self._waiting.append(WaitingEnding(ending, record, ends))
        self._next[record.partition] = record.offset + 1

    def _is_ours(self, ending: CrawlEvent) -> bool:
        """Return whether the pipeline may have read pages of a run; requisites are none."""
        if self._pipeline.source == "requisites":
            return False
        own = self._pipeline.source.removeprefix("crawled").removeprefix("_")
        return (not own or own == ending.crawl.appid) and self._pipeline.where.is_about(
            ending.crawl
        )

    async def _settle(self, topic_id: str) -> None:
        """Report every run of which all is in the store, and note how far that is."""
        if self._waiting:
            numbers = {number for each in self._waiting for number in each.ends}
            found = await asyncio.to_thread(self._kept.standings, topic_id, numbers)
            whole = summed(end.account for end in found.values())
            done = {n: end.position or 0 for n, end in found.items()}
            for each in list(self._waiting):
                if all(done[number] >= end for number, end in each.ends.items()):
                    await self._report(each.ending, whole)
                    self._waiting.remove(each)
        ended = [each.ending.server_time for each in self._waiting]
        note_waiting(self._pipeline.name, max(min(ended), self._began) if ended else None)
        if time.monotonic() - self._kept_at > _PLACE_EVERY_S:
            self._kept_at = time.monotonic()
            await self._keep_place()

    async def _keep_place(self) -> None:
        place = dict(self._next)
        for each in self._waiting:
            number = each.record.partition
            place[number] = min(place.get(number, each.record.offset), each.record.offset)
        await asyncio.to_thread(self._kept.put, _PLACE, jsontext.dumps(place_record(place)))

    async def _report(self, ending: CrawlEvent, whole: Account) -> None:
        name = run_name(ending.crawl, ending.run)
        name_kept = f"runs/{hashlib.blake2b(name.encode(), digest_size=16).hexdigest()}.json"
        tally = whole.runs.get(name, RecordTally())
        quality = self._judge.record(tally.quality, pages=tally.wanted)
        told = delivered(self._pipeline, ending, tally, quality)
        former = await asyncio.to_thread(self._kept.get, name_kept)
        value = events.encode(told)
        if former is not None and former == events.encode(
            replace(told, server_time=_time_of(former))
        ):
            return
        key = f"{self._pipeline.name}:{self._pipeline.edition}:{name}".encode()
        await self._sink.send([Out(self._topics.events, value, key)])
        await asyncio.to_thread(self._kept.put, name_kept, value)
        note_run(self._pipeline.name, quality, is_complete=told.is_complete)
        log.info(
            "report",
            pipeline=self._pipeline.name,
            crawlid=ending.crawl.crawlid,
            run=ending.run,
            complete=told.is_complete,
            **{key: quality[key] for key in ("score", "ok") if key in quality},
        )


def delivered(
    pipeline: Pipeline, ending: CrawlEvent, tally: RecordTally, quality: Mapping[str, Any]
) -> RunDelivered:
    """The account of a run, and how good its items are."""
    return RunDelivered(
        crawl=ending.crawl,
        run=ending.run,
        server_time=int(time.time()),
        pipeline=pipeline.name,
        edition=pipeline.edition,
        done=ending.counters.get("done", 0),
        read=tally.read,
        repeats=tally.repeats,
        delivered=tally.delivered,
        filtered=dict(tally.filtered),
        undelivered=tally.undelivered.total(),
        dropped=tally.dropped,
        reserved=tally.marks[RESERVED],
        archived=tally.archived,
        quality=quality,
    )


def place_record(place: Mapping[int, int]) -> Mapping[str, int]:
    """Offsets by partition, as an object of JSON."""
    return {str(number): place[number] for number in sorted(place)}


def _time_of(value: bytes) -> int:
    try:
        told = jsontext.loads(value)
        return int(told["server_time"]) if isinstance(told, dict) else 0
    except (KeyError, TypeError, ValueError):
        return 0
