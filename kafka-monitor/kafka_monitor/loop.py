"""The loop: poll, judge, reject, put, next. While one batch is put the next one is judged.

Batches are judged in their order and put in their order, one at a time: the position moves in
record order, and what is judged ahead is thrown away when the batch before it cannot be put.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial

import structlog

from crawlstream.boot.failpoints import failpoint
from crawlstream.bus.records import Batch, LostRecords
from crawlstream.bus.source import KafkaSource
from crawlstream.errors import CrawlstreamError, FrontierFull, PositionGap, Unavailable
from crawlstream.frontier.frontier import INTAKE_BYTES_PER_CALL
from crawlstream.model.effects import IntakeAnswer
from crawlstream.stats.pulse import Pulse
from crawlstream.stats.tally import Tally
from crawlstream.tasks import let_leave
from kafka_monitor.ahead import Ahead
from kafka_monitor.intake import Intake, Judged, sentence_of
from kafka_monitor.metrics import RECORDS, REQUESTS
from kafka_monitor.recovery import Recovery
from kafka_monitor.rejects import Rejected, Rejects

POLL_S = 0.5
"""Longest wait for records, and so for the notice of a stop."""

COMMIT_EVERY_S = 1.0
"""The commit is a hint: lag tools need no more."""

LOOK_EVERY_S = 2.0
"""How soon a Redis that lost everything is noticed while nothing is fed."""

BROKEN_AFTER = 3
"""When so many records in a row cannot be put, or a bare position cannot, the fault is not theirs:
the frontier is waited for like any service that is away, instead of rejecting all that comes."""

log = structlog.get_logger()


class Loop:
    """Moves requests from Kafka into the frontier, batch by batch.

    While a service is waited for, Kafka delivers nothing and the group is kept. A stop in this time
    cancels the loop, which harms nothing: the position has not moved.
    """

    def __init__(
        self,
        source: KafkaSource,
        intake: Intake,
        rejects: Rejects,
        *,
        recovery: Recovery,
        ahead: Ahead,
        tally: Tally,
    ) -> None:
        self._source = source
        self._intake = intake
        self._rejects = rejects
        self._recovery = recovery
        self._ahead = ahead
        self._tally = tally
        self._applied: dict[int, int] = {}
        self._committed_at = self._looked_at = time.monotonic()
        self._failed_in_a_row = 0
        self._settling: asyncio.Task[int | None] | None = None
        self.pulse = Pulse("put", pause=source.pause, resume=source.resume)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until told to stop; the batches at hand are finished first."""
        try:
            while not stop.is_set():
                for batch in await self._poll():
                    await self._take(batch)
                self.pulse.beat()
                await self._commit(COMMIT_EVERY_S)
                await self._look_after_positions()
            await self._settled()
            await self._commit(0)
        finally:
            if self._settling is not None:
                self._settling.cancel()

    async def _poll(self) -> Sequence[Batch]:
        """What has arrived already, or else what comes once nothing is under way any more."""
        batches = await self._source.poll(0)
        if not batches:
            await self._settled()
            batches = await self._source.poll(POLL_S)
        return batches

    async def _take(self, batch: Batch) -> None:
        for part in batch.chunks(self._intake.most(batch), INTAKE_BYTES_PER_CALL):
            judged = await self._judge_ahead(part)
            if await self._settled() == batch.partition:
                return
            self._settling = asyncio.create_task(self._put_or_seek(judged))
            await let_leave()

    async def _judge_ahead(self, part: Batch) -> Judged:
        """Judge while the batch before is put; a handler that must wait waits behind it."""
        try:
            return await self._intake.judge(part)
        except (Unavailable, FrontierFull):
            if self._settling is not None:
                await asyncio.wait([self._settling])
            return await self._judge(part)

    async def _judge(self, part: Batch) -> Judged:
        return await self.pulse.patiently(partial(self._intake.judge, part))

    async def _settled(self) -> int | None:
        """Wait until nothing is being put; answers the partition that had to be read again."""
        settling, self._settling = self._settling, None
        return None if settling is None else await settling

    async def _put_or_seek(self, judged: Judged) -> int | None:
        """Let a batch take effect; a batch too far ahead has its partition read again."""
        partition = judged.batch.partition
        try:
            await self._put_all(judged)
        except PositionGap as gap:
            log.warning("poll", outcome="gap", partition=partition, position=gap.position)
            topic_id = judged.batch.topic_id
            await self._place(topic_id, partition)
            return partition
        self._recovery.note_reached(partition, judged.batch.next)
        if not self._recovery.is_past(partition, judged.batch.next):
            self._applied[partition] = judged.batch.next
        return None

    async def _place(self, topic_id: str, partition: int) -> None:
        async def locate() -> int:
            try:
                return await self._recovery.locate(topic_id, partition)
            except (CrawlstreamError, LostRecords):
                raise
            except Exception as error:
                raise Unavailable(
                    f"cannot read the position of partition {partition}: {error}"
                ) from error

        try:
            self._source.seek(partition, await self.pulse.patiently(locate))
        except LostRecords as lost:
            self._source.ask(lost.where)

    async def _look_after_positions(self) -> None:
        """Notice a Redis that was lost, and a late stop, also while no records come that tell."""
        if time.monotonic() - self._looked_at < LOOK_EVERY_S:
            return
        self._looked_at = time.monotonic()
        await self._settled()
        try:
            misplaced = await self.pulse.patiently(self._recovery.misplaced)
        except Exception as error:  # noqa: BLE001  a frontier that is broken is told by what is put
            log.warning("poll", outcome="not_looked", error=repr(error))
            return
        for partition, topic_id in misplaced.items():
            await self._place(topic_id, partition)

    async def _put_all(self, judged: Judged) -> None:
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
            rejected = [Rejected(record, "put_failed", problems) for record in batch.records]
            await self._settle(Judged(batch, (), rejected, {}))

    async def _settle(self, judged: Judged) -> None:
        """Rejections and stops first, then effects and position: what breaks is repeated.

        What the frontier did not admit (a cap, a crawl stopped since) is told after: only the
        frontier knows, and it has counted it. It answers that again, whoever asks, until it hears
        that it was told: so it is told also after a lost answer, and after a death.
        """
        begun = time.monotonic()
        await self.pulse.patiently(partial(self._rejects.publish, judged.rejected))
        note = partial(self._recovery.note_steering, judged.batch, judged.effects)
        await self.pulse.patiently(note)
        answer = await self.pulse.patiently(partial(self._put, judged))
        failpoint("after_put")
        if answer.refused:
            await self.pulse.patiently(partial(self._rejects.publish, _refused(judged, answer)))
            await self.pulse.patiently(partial(self._intake.note_told, judged.batch))
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

    async def _put(self, judged: Judged) -> IntakeAnswer:
        try:
            answer = await self._intake.put(judged)
        except FrontierFull:
            self._ahead.is_wanted.set()
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

    def _count(self, judged: Judged, answer: IntakeAnswer) -> None:
        if judged.effects and not answer.applied:
            return
        self._tally.count("kafka-monitor", "total", by=len(judged.batch.records))
        RECORDS.inc(len(judged.batch.records))
        if judged.rejected:
            self._tally.count("kafka-monitor", "fail", by=len(judged.rejected))
        for name, handled in judged.handled.items():
            self._tally.count("kafka-monitor", "plugins", name, by=handled)
            REQUESTS.labels(name).inc(handled)

    async def _commit(self, every_s: float) -> None:
        if not self._applied or time.monotonic() - self._committed_at < every_s:
            return
        applied, self._applied = self._applied, {}
        self._committed_at = time.monotonic()
        await self._source.commit(applied)


def _refused(judged: Judged, answer: IntakeAnswer) -> list[Rejected]:
    return [
        Rejected(record, reason, [f"$: not admitted to the frontier: {reason}"])
        for record in judged.batch.records
        if (reason := answer.refused.get(record.offset))
    ]
