"""Loop of one pipeline: read, decode, where, stage, write; and the reports of its process."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import structlog

from crawlstream.boot.liveness import Liveness
from crawlstream.bus.protocols import Source
from crawlstream.bus.records import Batch, OutOfRange
from crawlstream.errors import ConfigError, Unavailable
from crawlstream.keys import Topics
from crawlstream_extract.workers.job import WorkersLost
from pipeline_service.metrics import BROKEN, LAG_SECONDS
from pipeline_service.records.judging import Judged, Undeliverable, judge
from pipeline_service.records.undelivered import UndeliveredPublisher
from pipeline_service.sinks.files.claims import BrokenChain
from pipeline_service.sinks.sink import PageSink, SinkRefused
from pipeline_service.spec.config import Pipeline
from pipeline_service.staging import Staging

POLL_S = 0.5
"""Longest wait for records, and so for the notice of a stop."""
RECORDS, BYTES = 200, 8 * 1024 * 1024
"""Limits of one step, and so of the work that is lost on the CPU when a stop comes."""

_LONGEST_WHY = 500
"""Characters of a sink's reason in a log."""

Proof = Callable[[], None]
"""Checks that a store supports its pipeline; blocks. ConfigError, Unavailable."""

log = structlog.get_logger()


class Flow:
    """Carries records from the source to the sink, partition by partition, in their order."""

    def __init__(
        self,
        pipeline: Pipeline,
        sink: PageSink,
        undelivered: UndeliveredPublisher,
        *,
        staging: Staging,
        proof: Proof | None = None,
    ) -> None:
        """``proof`` is the check that the store must pass before anything is written."""
        self.pipeline = pipeline
        self.sink = sink
        self.broken = ""
        """Why nothing is done until an operator has helped; empty: all is well."""
        self.source: Source | None = None
        self.ends: dict[int, int] = {}
        """Offset behind the last record of each partition, when the source was last queried."""
        self.read_up_to: dict[int, int] = {}
        """Offset behind the last record that the sink has been given, by partition."""
        self.liveness = Liveness("write", pause=self._pause, resume=self._resume)
        self.staging = staging
        self._undelivered = undelivered
        self._in_a_row: Counter[str] = Counter()
        """How many records were undelivered in a row for one reason."""
        self._trouble = ""
        self._proof = proof
        self._proving = asyncio.Lock()

    @property
    def waiting_for(self) -> str:
        """Reason for which it waits; empty: it does not."""
        waiting = self.liveness.waiting_for or self.sink.trouble or self._trouble
        if waiting or self.source is None:
            return waiting
        return self.source.obstacle or ("kafka" if self.source.is_waiting else "")

    @property
    def stored(self) -> int:
        """Records that were stored, or accounted for, since the process began."""
        return self.sink.stored

    def report(self, topics: Topics) -> Mapping[str, Any]:
        """Return its state for other processes: see `stats.pipelines`."""
        standings = self.sink.standings
        return {
            "edition": self.pipeline.edition,
            "source": self.pipeline.topic(topics),
            "broken": self.broken,
            "waiting_for": self.waiting_for,
            "oldest_s": round(self._oldest_s(), 1),
            "partitions": {
                str(number): {
                    "position": standing.position or 0,
                    "end": max(self.ends.get(number, 0), standing.position or 0),
                    **standing.account.total.numbers(),
                }
                for number, standing in standings.items()
            },
        }

    async def locate(self, topic_id: str, partition: int) -> int | None:
        """Return where a partition is to be read from; called again while it raises."""
        structlog.contextvars.bind_contextvars(pipeline=self.pipeline.name)
        try:
            await self._prove()
            position = await self.sink.position(topic_id, partition)
        except (BrokenChain, ConfigError) as error:
            self._break(str(error))
            raise
        except Unavailable as error:
            self._trouble = str(error)
            raise
        self._trouble = ""
        return position

    async def decide(self, where: OutOfRange) -> int | None:
        """Go on behind what Kafka has deleted; stay where it has lost what is stored already."""
        structlog.contextvars.bind_contextvars(pipeline=self.pipeline.name)
        if where.has_lost_records:
            self._break(
                f"partition {where.partition} ends at offset {where.log_end}, but records up to"
                f" {where.position} are stored: Kafka has lost records. Begin a new edition of the"
                " pipeline"
            )
            return None
        if self.pipeline.on_gap == "stop":
            self._break(
                f"Kafka had deleted the records of partition {where.partition} from offset"
                f" {where.position} to {where.log_start - 1} before they were read: to go on"
                ' without them, set on_gap = "skip"'
            )
            return None
        await self._undelivered.mark(where)
        log.error("read", outcome="out_of_range", partition=where.partition)
        return await self.sink.skip(where, self.liveness)

    async def _prove(self) -> None:
        async with self._proving:
            if self._proof is not None:
                await asyncio.to_thread(self._proof)
                self._proof = None

    async def run(self, source: Source, stop: asyncio.Event) -> None:
        """Work until told to stop, then finish what is open."""
        structlog.contextvars.bind_contextvars(pipeline=self.pipeline.name)
        self.source = source
        BROKEN.labels(self.pipeline.name).set(0)
        try:
            while not stop.is_set() and not self.broken:
                await self._step(source)
                self.liveness.beat()
        except Exception as error:
            log.exception("write", pipeline=self.pipeline.name, outcome="failed")
            self._break(f"unexpected {type(error).__name__}: {error}")
        if self.broken:
            source.pause()
            await self._rest(stop)
        else:
            await self.sink.end(self.liveness)
            await self._commit(source)

    async def _step(self, source: Source) -> None:
        for batch in await source.poll(POLL_S):
            for part in batch.chunks(RECORDS, BYTES):
                if not await self._take(source, part):
                    break
        for partition, position in (await self.sink.tick(self.liveness)).items():
            self._read_on(source, partition, position)
        await self._commit(source)
        self._tell()

    async def _take(self, source: Source, batch: Batch) -> bool:
        """Write a batch; False if its partition is read on from elsewhere, or not at all."""
        judged = await asyncio.to_thread(judge, self.pipeline, batch)
        try:
            is_known = partial(self.sink.knows, batch.partition)
            judged = await self.staging.run(judged, self._beat, is_known)
        except (ConfigError, WorkersLost) as error:
            self._break(str(error))
            return False
        if self._is_flooded(judged):
            return False
        elsewhere = await self._write(batch, judged)
        if elsewhere is None:
            self.read_up_to[batch.partition] = batch.next
        else:
            self._read_on(source, batch.partition, elsewhere)
        self.liveness.beat()
        return elsewhere is None

    def _read_on(self, source: Source, partition: int, position: int) -> None:
        """Read a partition on from the position that another process has stored."""
        self.read_up_to[partition] = position
        source.seek(partition, position)

    async def _write(self, batch: Batch, judged: Sequence[Judged]) -> int | None:
        """Have a batch in the sink, and on `undelivered` what the sink will never take."""
        while True:
            await self.liveness.retry(partial(self._undelivered.publish, judged))
            try:
                return await self.sink.write(batch, judged, self.liveness)
            except SinkRefused as refused:
                judged = self._without(judged, refused)

    def _without(self, judged: Sequence[Judged], refused: SinkRefused) -> Sequence[Judged]:
        log.warning("write", outcome="refused", error=str(refused)[:_LONGEST_WHY])
        return refused.without(judged)

    def _is_flooded(self, judged: Sequence[Judged]) -> bool:
        """Return whether undelivered records in a row reach the pipeline's limit."""
        most = self.pipeline.stop_after_undelivered
        for each in judged:
            if not isinstance(each, Undeliverable):
                self._in_a_row.clear()
                continue
            self._in_a_row = Counter({each.reason: self._in_a_row[each.reason] + 1})
            if most and self._in_a_row[each.reason] >= most:
                why = "; ".join(each.errors)
                self._break(
                    f"{most} records in a row are undelivered ({each.reason}), the last one because"
                    f" {why}: the fault may not be theirs. If it is, raise stop_after_undelivered"
                )
                return True
        return False

    def _beat(self, ahead_s: float) -> None:
        self.liveness.beat(ahead_s=ahead_s)

    async def _commit(self, source: Source) -> None:
        """Commit the store's progress for lag tools, of partitions of which it holds anything."""
        durable = {
            number: each.position
            for number, each in self.sink.standings.items()
            if each.position is not None and (each.account.total.read or each.account.total.lost)
        }
        if durable:
            await source.commit(durable)

    async def _rest(self, stop: asyncio.Event) -> None:
        """Stay a member that reads nothing, so that an operator finds it."""
        while not stop.is_set():
            self.liveness.beat()
            await asyncio.sleep(POLL_S)

    def _break(self, why: str) -> None:
        if not self.broken:
            log.error("broken", pipeline=self.pipeline.name, error=why)
        self.broken = why
        BROKEN.labels(self.pipeline.name).set(1)

    def _tell(self) -> None:
        LAG_SECONDS.labels(self.pipeline.name).set(self._oldest_s())

    def _oldest_s(self) -> float:
        first_ms = self.sink.oldest_ms
        return max(time.time() - first_ms / 1000, 0) if first_ms else 0

    def _pause(self) -> None:
        if self.source is not None:
            self.source.pause()

    def _resume(self) -> None:
        if self.source is not None:
            self.source.resume()
