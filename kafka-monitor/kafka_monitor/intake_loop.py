"""The loop: poll, judge, reject, put, next. While one batch is put the next one is judged.

Batches are judged in their order and put in their order, one at a time: the position moves in
record order, and what is judged ahead is thrown away when the batch before it cannot be put.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial

import structlog

from crawlstream.boot.failpoints import failpoint
from crawlstream.boot.liveness import Liveness
from crawlstream.bus.protocols import Source
from crawlstream.bus.records import Batch, LostRecords
from crawlstream.errors import CrawlstreamError, FrontierFull, PositionGap, Unavailable
from crawlstream.model.effects import IntakeResult
from crawlstream.stats.tally import Tally
from crawlstream.tasks import let_leave
from crawlstream_frontier.intake import BYTES_PER_CALL
from kafka_monitor.consumer import PartitionConsumer
from kafka_monitor.metrics import RECORDS, REPEATED, REQUESTS
from kafka_monitor.rejections import RejectedRecord, RejectionPublisher, not_admitted
from kafka_monitor.request_intake import AppliedOffsets, JudgedBatch, RequestIntake, sentence_of

POLL_S = 0.5
"""Longest wait for records, and so for the notice of a stop."""

LOOK_EVERY_S = 2.0
"""How soon a Redis that lost everything is noticed while nothing is fed."""

BROKEN_AFTER = 3
"""Number of failures in a row after which the frontier counts as unavailable.

If this number of consecutive records cannot be put, or a bare position cannot, the records are not
the cause: the loop waits for the frontier instead of rejecting every record.
"""

log = structlog.get_logger()


class IntakeLoop:
    """Moves requests from Kafka into the frontier, batch by batch.

    While a service is waited for, Kafka delivers nothing and the group is kept. A stop in this time
    cancels the loop, which harms nothing: the position has not moved. ``full`` is set whenever
    seeds have to wait.
    """

    def __init__(
        self,
        source: Source,
        intake: RequestIntake,
        rejects: RejectionPublisher,
        *,
        recovery: AppliedOffsets,
        full: asyncio.Event,
        tally: Tally,
    ) -> None:
        self.liveness = Liveness("put", pause=source.pause, resume=source.resume)
        self._consumer = PartitionConsumer(source, self._locate, liveness=self.liveness)
        self._intake = intake
        self._rejects = rejects
        self._recovery = recovery
        self._full = full
        self._tally = tally
        self._looked_at = time.monotonic()
        self._failed_in_a_row = 0
        self._settling: asyncio.Task[int | None] | None = None
        self._looking: asyncio.Task[Mapping[int, str] | None] | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Work until a stop is requested; the current batches are finished first."""
        try:
            while not stop.is_set():
                for batch in await self._poll():
                    await self._take(batch)
                self.liveness.beat()
                await self._look_after_positions()
            await self._settled()
        finally:
            for task in (self._settling, self._looking):
                if task is not None:
                    task.cancel()

    async def _poll(self) -> Sequence[Batch]:
        """Return batches that have arrived, or wait for some once none is in progress."""
        batches = await self._consumer.poll(0)
        if not batches:
            await self._settled()
            batches = await self._consumer.poll(POLL_S)
        return batches

    async def _take(self, batch: Batch) -> None:
        for part in batch.chunks(self._intake.most(batch), BYTES_PER_CALL):
            judged = await self._judge_ahead(part)
            if await self._settled() == batch.partition:
                return
            self._settling = asyncio.create_task(self._put_or_seek(judged))
            await let_leave()

    async def _judge_ahead(self, part: Batch) -> JudgedBatch:
        """Judge while the batch before is put; a handler that must wait waits behind it."""
        try:
            return await self._intake.judge(part)
        except (Unavailable, FrontierFull):
            if self._settling is not None:
                await asyncio.wait([self._settling])
            return await self._judge(part)

    async def _judge(self, part: Batch) -> JudgedBatch:
        return await self.liveness.retry(partial(self._intake.judge, part))

    async def _settled(self) -> int | None:
        """Wait until nothing is being put; answers the partition that had to be read again."""
        settling, self._settling = self._settling, None
        return None if settling is None else await settling

    async def _put_or_seek(self, judged: JudgedBatch) -> int | None:
        """Let a batch take effect; a batch too far ahead has its partition read again."""
        partition, reached = judged.batch.partition, judged.batch.next
        if not await self._consumer.apply(judged.batch, partial(self._put_all, judged)):
            return partition
        self._recovery.note_reached(partition, reached)
        if not self._recovery.is_past(partition, reached):
            await self._consumer.commit(partition, self._recovery.settled(partition, reached))
        return None

    async def _locate(self, topic_id: str, partition: int) -> int:
        try:
            return await self._recovery.locate(topic_id, partition)
        except (CrawlstreamError, LostRecords):
            raise
        except Exception as error:
            raise Unavailable(
                f"cannot read the position of partition {partition}: {error}"
            ) from error

    async def _look_after_positions(self) -> None:
        """Notice a lost Redis and a late stop, also while no records arrive that would show it.

        Requests continue during the look: one of several partitions may not answer.
        """
        if self._looking is None:
            if time.monotonic() - self._looked_at >= LOOK_EVERY_S:
                self._looking = asyncio.create_task(self._misplaced())
            return
        if not self._looking.done():
            return
        looking, self._looking = self._looking, None
        self._looked_at = time.monotonic()
        await self._settled()
        try:
            misplaced = await looking
            if misplaced is None:
                misplaced = await self.liveness.retry(self._recovery.misplaced)
        except Exception as error:  # noqa: BLE001 put fails if the frontier is broken
            log.warning("poll", outcome="not_looked", error=repr(error))
            return
        for partition, topic_id in misplaced.items():
            await self._consumer.place(topic_id, partition)
        for partition, settled in self._recovery.caught_up().items():
            await self._consumer.commit(partition, settled)

    async def _misplaced(self) -> Mapping[int, str] | None:
        """Return partitions to read again; None where the look failed and has to be repeated."""
        with suppress(Exception):
            return await self._recovery.misplaced()
        return None

    async def _put_all(self, judged: JudgedBatch) -> None:
        """Let a batch take effect, or isolate the one record in it that makes this impossible."""
        batch = judged.batch
        try:
            await self._settle(judged)
        except PositionGap:
            raise
        except Exception as error:
            if len(batch.records) > 1:
                for part in batch.chunks((len(batch.records) + 1) // 2):
                    await self._put_all(await self._judge(part))
                return
            log.exception("put", outcome="failed", offset=batch.start)
            self._failed_in_a_row += 1
            problems = [sentence_of(error)]
            rejected = [RejectedRecord(record, "put_failed", problems) for record in batch.records]
            await self._settle(JudgedBatch(batch, (), rejected, {}))

    async def _settle(self, judged: JudgedBatch) -> None:
        """Publish rejections and stops first, then apply effects and position; repeat on failure.

        Seeds that the frontier did not admit (a cap, a crawl stopped since) are reported
        afterwards: only the frontier knows them, and it has counted them. It returns them again to
        every caller until it is notified that they were published, so they are reported also after
        a lost answer or a crash.
        """
        begun = time.monotonic()
        await self.liveness.retry(partial(self._rejects.publish, judged.rejected))
        note = partial(self._recovery.note_steering, judged.batch, judged.effects)
        await self.liveness.retry(note)
        answer = await self.liveness.retry(partial(self._put, judged))
        failpoint("after_put")
        if answer.refused:
            refused = not_admitted(judged.batch.records, answer.refused)
            await self.liveness.retry(partial(self._rejects.publish, refused))
            await self.liveness.retry(partial(self._intake.note_published, judged.batch))
        self._count(judged, answer)
        log.info(
            "put",
            partition=judged.batch.partition,
            start=judged.batch.start,
            next=judged.batch.next,
            applied=answer.applied,
            rejected=len(judged.rejected),
            refused=len(answer.refused),
            ms=round((time.monotonic() - begun) * 1000, 1),
        )

    async def _put(self, judged: JudgedBatch) -> IntakeResult:
        try:
            answer = await self._intake.put(judged)
        except FrontierFull:
            self._full.set()
            raise
        except CrawlstreamError:
            raise
        except Exception as error:
            if judged.effects and self._failed_in_a_row < BROKEN_AFTER:
                raise
            raise Unavailable(f"the frontier cannot accept requests: {error}") from error
        if judged.effects:
            self._failed_in_a_row = 0
        return answer

    def _count(self, judged: JudgedBatch, answer: IntakeResult) -> None:
        if judged.effects and not answer.applied:
            return
        self._tally.count("kafka-monitor", "total", by=len(judged.batch.records))
        RECORDS.inc(len(judged.batch.records))
        REPEATED.inc(answer.repeated)
        if judged.rejected:
            self._tally.count("kafka-monitor", "fail", by=len(judged.rejected))
        for name, handled in judged.handled.items():
            self._tally.count("kafka-monitor", "plugins", name, by=handled)
            REQUESTS.labels(name).inc(handled)
