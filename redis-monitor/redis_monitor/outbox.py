"""Publisher of the frontier's outbox: takes records from Redis to Kafka.

One script makes an effect and puts its record into the outbox, so neither is without the other. The
record is deleted from the outbox after Kafka has it; a crash in between repeats it with its key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import structlog

from crawlstream.boot.liveness import Liveness
from crawlstream.bus.outbound import Outbound
from crawlstream.bus.records import NotAcknowledged, Out, RecordTooLarge
from crawlstream.keys import FrontierKeys, Topics
from crawlstream.model.effects import OutboxRecord, OutboxSchedule
from crawlstream.model.event import CrawlEvent, PageReply
from crawlstream.model.run_marks import RUNNING, RunMark
from crawlstream.stats.tally import Tally
from crawlstream.wire import events, replies, run_marks
from crawlstream_frontier.streams import Streams
from redis_monitor.dead_letters import (
    cut,
    dead_letter,
    is_answered,
    lost_on_shelf,
    lost_spill,
    put_aside,
)
from redis_monitor.ledger_audit import check_ending
from redis_monitor.metrics import DEAD_LETTERS, REPLIES_WITHOUT_PAGE, RUNS
from redis_monitor.partitions.ending_records import EndingRecords
from redis_monitor.schedules.outbox_records import records_of

COUNT = 100
BLOCK_MS = 1000
"""Longest wait for records, and so for the notice of a stop."""

_STATES = {
    "crawl_started": RUNNING,
    "crawl_finished": "finished",
    "crawl_stopped": "stopped",
    "crawl_expired": "expired",
}

_UNANSWERED = {
    "crawl_finished": "no_result",
    "crawl_stopped": "stopped",
    "crawl_expired": "expired",
}
"""Reasons of the replies to clients that still wait for a page when its run ends."""

log = structlog.get_logger()


_LOST = {"spill_lost": lost_spill, "shelf_lost": lost_on_shelf}


class OutboxPublisher:
    """Publishes beginnings, endings, dead letters and acceptances."""

    def __init__(
        self,
        streams: Streams,
        *,
        outbound: Outbound,
        tally: Tally,
        liveness: Liveness,
        coordinators: EndingRecords | None = None,
    ) -> None:
        """``coordinators``: of a frontier of several partitions, the one whose outbox this is."""
        self._coordinators = coordinators
        self._streams = streams
        self._outbound = outbound
        self._topics = outbound.topics
        self._tally = tally
        self._liveness = liveness

    async def step(self) -> float:
        """Publish the records of the outbox, in order, then let the frontier delete them."""
        owed = await self._streams.records(count=COUNT, block_ms=BLOCK_MS)
        if not owed:
            return 0.0
        records = [record for one in owed for record in self._records(one)]
        ids = [one.id for one in owed]
        async with self._streams.keeping_records(ids):
            await self._publish(records)
            if self._coordinators:
                await self._liveness.retry(partial(self._coordinators.published, owed))
            await self._liveness.retry(lambda: self._streams.published(ids))
        _count(owed)
        log.info("publish", records=len(records), kinds=sorted({one.kind for one in owed}))
        return 0.0

    async def _publish(self, records: Sequence[Out]) -> None:
        """Send until Kafka has all of them: again only what it has not acknowledged."""
        left = records

        async def send() -> None:
            nonlocal left
            try:
                await self._outbound.send(left)
            except NotAcknowledged as error:
                left = error.records
                raise

        while left:
            try:
                await self._liveness.retry(send)
            except RecordTooLarge as error:
                log.exception("publish", outcome="too_large")
                left = [small for each in error.records if (small := cut(each, self._topics))]
            else:
                return

    def _records(self, owed: OutboxRecord | OutboxSchedule) -> Sequence[Out]:
        if isinstance(owed, OutboxSchedule):
            return records_of(owed, self._topics)
        if owed.kind == "accepted":
            body = replies.accepted(
                owed.crawl, uuid=owed.uuid or "", run=owed.run, server_time=owed.server_time
            )
            return self._outbound.reply(owed.crawl.appid, body)
        if owed.lease is not None:
            return dead_letter(owed, owed.lease, self._outbound)
        if owed.kind in _LOST:
            return _LOST[owed.kind](owed, self._topics)
        if owed.kind not in _STATES:
            return put_aside(owed, self._topics)
        check_ending(owed)
        ending = CrawlEvent(
            event=owed.kind,
            crawl=owed.crawl,
            run=owed.run,
            server_time=owed.server_time,
            started_at=owed.started_at,
            counters=owed.counters,
            reasons=owed.reasons,
            firing=owed.firing,
            by=owed.budget if owed.kind == "crawl_expired" else "",
        )
        key = f"{FrontierKeys.crawl_field(owed.crawl)}:{owed.run}:{owed.kind}".encode()
        event = Out(self._topics.events, events.encode(ending), key)
        marks = self._coordinators.marks(owed, self._topics) if self._coordinators else ()
        return [*marks, self._mark(owed), event, *self._unanswered(owed), *self._expired(owed)]

    def _mark(self, owed: OutboxRecord) -> Out:
        """Return the mark of a run that a new Redis will receive; it precedes the run's ending."""
        mark = RunMark(
            crawl=owed.crawl,
            run=owed.run,
            state=_STATES[owed.kind],
            positions=owed.positions,
            remember=owed.remember,
            firing=owed.firing if owed.seen else None,
            seen=owed.seen,
        )
        return Out(self._topics.runs, run_marks.encode(mark), Topics.run_key(mark))

    def _unanswered(self, owed: OutboxRecord) -> Iterator[Out]:
        """Yield replies for clients that wait for pages which the run has ended without."""
        for uuid in owed.unanswered:
            reply = PageReply(
                uuid=uuid,
                crawl=owed.crawl,
                run=owed.run,
                server_time=owed.server_time,
                reason=_UNANSWERED[owed.kind],
            )
            yield from self._outbound.reply(owed.crawl.appid, replies.page(reply))

    def _expired(self, owed: OutboxRecord) -> Sequence[Out]:
        """The predecessor's own message about a crawl that reached its time."""
        if owed.kind != "crawl_expired":
            return []
        self._tally.count("redis-monitor", "total")
        self._tally.count("redis-monitor", "plugins", "ExpireMonitor")
        body = replies.expired(
            owed.crawl,
            total_expired=owed.counters.get("expired", 0),
            by=owed.budget,
            server_time=owed.server_time,
        )
        return self._outbound.reply(owed.crawl.appid, body)


def _count(owed: Sequence[OutboxRecord | OutboxSchedule]) -> None:
    for one in owed:
        if isinstance(one, OutboxSchedule):
            continue
        if one.kind in _STATES:
            RUNS.labels(one.kind).inc()
            if one.unanswered:
                REPLIES_WITHOUT_PAGE.labels(_UNANSWERED[one.kind]).inc(len(one.unanswered))
        elif one.reason:
            DEAD_LETTERS.labels(one.reason).inc(one.links or 1)
            if one.lease is not None and is_answered(one.lease):
                REPLIES_WITHOUT_PAGE.labels(one.reason).inc()
