"""The loop: poll, judge, reject, put, next. One task; the position moves in record order."""

from __future__ import annotations

import asyncio
import time
from functools import partial

import structlog

from crawlstream.bus.records import Batch
from crawlstream.bus.source import KafkaSource
from crawlstream.errors import CrawlstreamError, PositionGap, Unavailable
from crawlstream.frontier.frontier import INTAKE_PER_CALL
from crawlstream.model.effects import IntakeAnswer
from crawlstream.stats.pulse import Pulse
from crawlstream.stats.tally import Tally
from kafka_monitor.intake import Intake, Judged, Rejected, sentence_of
from kafka_monitor.rejects import Rejects

POLL_S = 0.5
"""Longest wait for records, and so for the notice of a stop."""

COMMIT_EVERY_S = 1.0
"""The commit is a hint: lag tools need no more."""

BROKEN_AFTER = 3
"""When so many records in a row cannot be put, or a bare position cannot, the fault is not theirs:
the frontier is waited for like any service that is away, instead of rejecting all that comes."""

log = structlog.get_logger()


class Loop:
    """Moves requests from Kafka into the frontier, batch by batch.

    While a service is waited for, Kafka delivers nothing and the group is kept. A stop in this time
    cancels the loop, which harms nothing: the position has not moved.
    """

    def __init__(self, source: KafkaSource, intake: Intake, rejects: Rejects, tally: Tally) -> None:
        self._source = source
        self._intake = intake
        self._rejects = rejects
        self._tally = tally
        self._applied: dict[int, int] = {}
        self._committed_at = time.monotonic()
        self._failed_in_a_row = 0
        self.pulse = Pulse("put", pause=source.pause, resume=source.resume)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until told to stop; the batch at hand is finished first."""
        while not stop.is_set():
            for batch in await self._source.poll(POLL_S):
                await self._take(batch)
            self.pulse.beat()
            await self._commit(COMMIT_EVERY_S)
        await self._commit(0)

    async def _take(self, batch: Batch) -> None:
        try:
            for part in batch.chunks(INTAKE_PER_CALL):
                await self._take_part(part)
                self._applied[batch.partition] = part.next
        except PositionGap as gap:
            log.warning("poll", outcome="gap", partition=batch.partition, position=gap.position)
            self._source.seek(batch.partition, gap.position)

    async def _take_part(self, batch: Batch) -> None:
        """Let a batch take effect, or isolate the one record in it that makes this impossible."""
        judged = await self.pulse.patiently(partial(self._intake.judge, batch))
        try:
            await self._settle(judged)
        except PositionGap:
            raise
        except Exception as error:
            if len(batch.records) > 1:
                for part in batch.chunks((len(batch.records) + 1) // 2):
                    await self._take_part(part)
                return
            log.exception("put", outcome="failed", offset=batch.start)
            self._failed_in_a_row += 1
            problems = [sentence_of(error)]
            rejected = [Rejected(record, "put_failed", problems) for record in batch.records]
            await self._settle(Judged(batch, (), rejected, {}))

    async def _settle(self, judged: Judged) -> None:
        """Rejections first, then effects and position: whatever breaks in between is repeated.

        What the frontier did not admit (a cap, a crawl stopped since) is told after: only the
        frontier knows, and it has counted it.
        """
        begun = time.monotonic()
        await self.pulse.patiently(partial(self._rejects.publish, judged.rejected))
        answer = await self.pulse.patiently(partial(self._put, judged))
        await self.pulse.patiently(partial(self._rejects.publish, _refused(judged, answer)))
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
        except CrawlstreamError:
            raise
        except Exception as error:
            if judged.effects and self._failed_in_a_row < BROKEN_AFTER:
                raise
            raise Unavailable(f"nothing can be put: {error}") from error
        if judged.effects:
            self._failed_in_a_row = 0
        return answer

    def _count(self, judged: Judged, answer: IntakeAnswer) -> None:
        if judged.effects and not answer.applied:
            return
        self._tally.count("kafka-monitor", "total", by=len(judged.batch.records))
        if judged.rejected:
            self._tally.count("kafka-monitor", "fail", by=len(judged.rejected))
        for name, handled in judged.handled.items():
            self._tally.count("kafka-monitor", "plugins", name, by=handled)

    async def _commit(self, every_s: float) -> None:
        if not self._applied or time.monotonic() - self._committed_at < every_s:
            return
        applied, self._applied = self._applied, {}
        self._committed_at = time.monotonic()
        await self._source.commit(applied)


def _refused(judged: Judged, answer: IntakeAnswer) -> list[Rejected]:
    return [
        Rejected(record, reason, [f"$: the frontier did not admit it: {reason}"])
        for record in judged.batch.records
        if (reason := answer.refused.get(record.offset))
    ]
