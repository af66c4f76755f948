"""Ends runs that are over in all partitions or whose time is over, and notifies partitions."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import structlog

from crawlstream.bus.outbound import Outbound
from crawlstream.bus.records import Out
from crawlstream.errors import Unavailable
from crawlstream.keys import Topics
from crawlstream.model.partitions.messages import (
    ContextChange,
    ContextKey,
    Look,
    OpenRun,
    Question,
    ToNote,
)
from crawlstream.tasks import together
from crawlstream.wire import run_marks as wire
from crawlstream_frontier.partitions.confirm import is_over, summed
from crawlstream_frontier.partitions.frontiers import Frontiers
from crawlstream_frontier.partitions.labelling import Labelling
from crawlstream_frontier.wake import Sleeper
from redis_monitor.partitions.spending import BudgetLooks

IDLE_S, BUSY_S = 1.0, 0.1
"""Pause between two looks of a coordinator: with no run that might be over, and with one."""
TIMES = 4
"""Factor: a pause lasts this many times as long as the step before it, up to IDLE_S."""
RUNS_A_LOOK = 200
READ_WITHIN_MS = 1_000
"""Time after its last seed for which a run does not expire: partitions may still read it."""
FULL_LOOK_S = 5.0
"""Seconds between looks at all other partitions of a run that has work in some partition.

Such a look confirms contexts that have work in the partition and are not confirmed.
"""
FULL_LOOKS = 20
"""Number of these in a step: with thousands of open runs each is looked at less often."""
FORGET_S = 60.0
"""Seconds after which a look is forgotten: its runs have been ended by other processes."""

log = structlog.get_logger()


class _Busy(NamedTuple):
    """Where a run had work when all partitions were looked at last, and when that was."""

    partition: int
    looked_at: float


class Endings:
    """Duty of one coordinator; several instances may run.

    A run is over if one look at all partitions shows it, in any order; a partition that does not
    answer leaves all runs open. A run that had work in some partition is looked at there first, and
    left alone as long as it has work: most open runs cost one report, not one of each partition. A
    run whose time is over ends as soon as Kafka has the record, also if partitions do not answer;
    so does the memory of pages of a crawl.
    """

    def __init__(
        self,
        frontiers: Frontiers,
        partition: int,
        labelling: Labelling,
        *,
        outbound: Outbound,
        sleeper: Sleeper,
        grace_ms: int,
        dedupe_ms: int,
        links_topic: Callable[[], Awaitable[str]],
    ) -> None:
        """Keep the clients; ``sleeper`` is woken when the coordinator has something new.

        ``links_topic`` returns the UUID of the topic of links, and is called once.
        """
        self._outbound = outbound
        self._dedupe_ms = dedupe_ms
        self._partition = partition
        self._frontiers = frontiers
        self._coordinator = frontiers[partition].coordinator
        self._spending = BudgetLooks(frontiers, self._coordinator)
        self._labelling = labelling
        self._sleeper = sleeper
        self._grace_ms = grace_ms
        self._links_topic = links_topic
        self._topic_id = ""
        self._start = 0
        self._busy: dict[ContextKey, _Busy] = {}

    async def step(self) -> float:
        """Notify partitions and look once, then sleep."""
        await self._sleeper.sleep(await self.look())
        return 0.0

    async def look(self) -> float:
        """Notify partitions, and look at some runs; return the seconds to wait then."""
        began = time.monotonic()
        told = await self._tell()
        runs, passed = await self._coordinator.quiet(
            self._grace_ms, start=self._start, most=RUNS_A_LOOK
        )
        await self._look(await self._perhaps_over(runs))
        self._go_on(passed)
        await self._spending.look()
        next_s = await self._lapse()
        if not (runs or told):
            return min(next_s, IDLE_S)
        return min(max(BUSY_S, TIMES * (time.monotonic() - began)), IDLE_S)

    def _go_on(self, passed: int) -> None:
        """Move on: the next step looks at the runs behind these, or begins again."""
        self._start += passed
        if passed < RUNS_A_LOOK:
            self._start, since = 0, time.monotonic() - FORGET_S
            self._busy = {run: busy for run, busy in self._busy.items() if busy.looked_at > since}

    async def _perhaps_over(self, runs: Sequence[OpenRun]) -> Sequence[OpenRun]:
        """Return the runs that have nothing left where they had something the last time."""
        now, left, due = time.monotonic(), list[OpenRun](), FULL_LOOKS
        busy = defaultdict[int, list[OpenRun]](list)
        for run in runs:
            known = self._busy.get(run.context)
            if known and (now < known.looked_at + FULL_LOOK_S or due == 0):
                busy[known.partition].append(run)
            else:
                left.append(run)
                due -= known is not None
        looks = await together(
            self._frontiers[p].contexts.look([run.context for run in there])
            for p, there in busy.items()
        )
        for (partition, there), look in zip(busy.items(), looks, strict=True):
            self._confirm(partition, there, look)
            left += [run for run, report in zip(there, look.reports, strict=True) if report.is_idle]
        return left

    async def _look(self, runs: Sequence[OpenRun]) -> None:
        """Look once at all partitions; end the runs that are over."""
        if not runs:
            return
        self._topic_id = self._topic_id or await self._links_topic()
        contexts = [run.context for run in runs]
        looks = await together(each.contexts.look(contexts) for each in self._frontiers)
        for partition, look in enumerate(looks):
            self._confirm(partition, runs, look)
        for number, run in enumerate(runs):
            self._note_busy(run, looks, number)
            if is_over(run, looks, number, self._topic_id, coordinator=self._partition):
                ended = await self._coordinator.finish(run, summed(run, looks, number))
                log.info(
                    "homes", outcome="over", crawl=str(run.context.crawl), run=run.run, ended=ended
                )

    def _note_busy(self, run: OpenRun, looks: Sequence[Look], number: int) -> None:
        for partition, look in enumerate(looks):
            if not look.reports[number].is_idle:
                self._busy[run.context] = _Busy(partition, time.monotonic())
                return
        self._busy.pop(run.context, None)

    def _confirm(self, partition: int, runs: Sequence[OpenRun], look: Look) -> None:
        """Request contexts that no worker may lease from, or that wait for credits."""
        pairs = [*zip(runs, look.reports, strict=True)]
        unconfirmed = [
            Question(run.context)
            for run, report in pairs
            if not (report.is_idle or report.is_leasable)
        ]
        short = [
            Question(run.context, is_of_credits=True) for run, report in pairs if report.is_short
        ]
        self._labelling.request(partition, [*unconfirmed, *short])

    async def _lapse(self) -> float:
        """Let end what the coordinator's clock ends; seconds until there may be more."""
        to_note, next_ms = await self._coordinator.overdue(READ_WITHIN_MS, self._dedupe_ms)
        if to_note:
            await self._outbound.send([self._record(note) for note in to_note])
        for note in to_note:
            ended = await self._coordinator.lapse(note)
            log.info("homes", outcome=note.how, crawl=str(note.crawl), run=note.run, ended=ended)
        if to_note or next_ms is None:
            return BUSY_S if to_note else IDLE_S
        return max(next_ms / 1000, BUSY_S)

    def _record(self, note: ToNote) -> Out:
        mark, topic = note.mark(), self._outbound.topics.runs
        key = Topics.coordinator_key(self._partition, mark)
        return Out(topic, wire.encode_coordinator_mark(self._partition, mark), key, partition=0)

    async def _tell(self) -> int:
        """Send news to partitions, and their answers to the coordinator; return the number of news.

        Partitions that do not answer, or still have pages in flight, are notified the next time.
        """
        by_partition = defaultdict[int, list[ContextChange]](list)
        for tell in await self._coordinator.changes():
            by_partition[tell.partition].append(tell)
        told = 0
        for partition, tells in by_partition.items():
            try:
                answers = await self._frontiers[partition].contexts.deliver(tells)
            except Unavailable as error:
                name = self._frontiers.name(partition)
                log.warning("homes", outcome="waiting", partition=name, error=str(error))
                continue
            await self._coordinator.acknowledge(answers)
            told += len(answers)
            # Changed contexts are requested at once: a paused crawl, for example, delays no worker.
            changed = [Question(tell.context) for tell in tells if tell.what == "changed"]
            self._labelling.request(partition, changed)
        return told
