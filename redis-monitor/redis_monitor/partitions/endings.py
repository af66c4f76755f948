"""Ends runs that are over in all partitions or whose time is, and has partitions hear of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence

import structlog

from crawlstream.bus.outbound import Outbound
from crawlstream.bus.records import Out
from crawlstream.errors import Unavailable
from crawlstream.frontier.partitions.confirm import is_over, summed
from crawlstream.frontier.partitions.frontiers import Frontiers
from crawlstream.frontier.partitions.labelling import Labelling
from crawlstream.keys import Topics
from crawlstream.model.partitions.messages import Look, OpenRun, Question, Tell, ToNote
from crawlstream.tasks import together
from crawlstream.wire import runs as wire

IDLE_S, BUSY_S = 1.0, 0.1
"""Pause between two looks of a home: where it has no run that might be over, and where it has."""
RUNS_A_LOOK = 200
READ_WITHIN_MS = 1_000
"""So long after its last seed a run does not expire: partitions may be about to read it."""

log = structlog.get_logger()


class Endings:
    """The duty of one home; safe beside any number of others.

    A run is over if one look at all partitions says so, in whatever order they are looked at; a
    partition that does not answer leaves all runs open. A run whose time is over ends whoever
    answers, as soon as Kafka remembers that; and so does what a crawl remembers of its pages.
    """

    def __init__(
        self,
        frontiers: Frontiers,
        partition: int,
        labelling: Labelling,
        *,
        outbound: Outbound,
        grace_ms: int,
        dedupe_ms: int,
        links_topic: Callable[[], Awaitable[str]],
    ) -> None:
        """``links_topic`` answers the UUID of the topic of links, and is asked once."""
        self._outbound = outbound
        self._dedupe_ms = dedupe_ms
        self._partition = partition
        self._frontiers = frontiers
        self._home = frontiers[partition].home
        self._labelling = labelling
        self._grace_ms = grace_ms
        self._links_topic = links_topic
        self._topic_id = ""
        self._start = 0

    async def step(self) -> float:
        """Tell what is to be told, and look at some runs; how long to wait then."""
        told = await self._tell()
        runs = await self._home.quiet(self._grace_ms, start=self._start, most=RUNS_A_LOOK)
        self._start = self._start + len(runs) if len(runs) == RUNS_A_LOOK else 0
        if runs:
            await self._look(runs)
        next_s = await self._lapse()
        return BUSY_S if runs or told else min(next_s, IDLE_S)

    async def _look(self, runs: Sequence[OpenRun]) -> None:
        self._topic_id = self._topic_id or await self._links_topic()
        contexts = [run.context for run in runs]
        looks = await together(each.contexts.look(contexts) for each in self._frontiers)
        self._confirm(runs, looks)
        for number, run in enumerate(runs):
            if is_over(run, looks, number, self._topic_id):
                ended = await self._home.finish(run, summed(run, looks, number))
                log.info(
                    "homes", outcome="over", crawl=str(run.context.crawl), run=run.run, ended=ended
                )

    def _confirm(self, runs: Sequence[OpenRun], looks: Sequence[Look]) -> None:
        """Ask about contexts that have work, and nobody may lease from."""
        for partition, look in enumerate(looks):
            self._labelling.ask(
                partition,
                [
                    Question(run.context)
                    for run, report in zip(runs, look.reports, strict=True)
                    if not (report.is_idle or report.is_leasable)
                ],
            )

    async def _lapse(self) -> float:
        """Let end what the home's clock ends; seconds until there may be more."""
        to_note, next_ms = await self._home.overdue(READ_WITHIN_MS, self._dedupe_ms)
        if to_note:
            await self._outbound.send([self._record(note) for note in to_note])
        for note in to_note:
            ended = await self._home.lapse(note)
            log.info("homes", outcome=note.how, crawl=str(note.crawl), run=note.run, ended=ended)
        if to_note or next_ms is None:
            return BUSY_S if to_note else IDLE_S
        return max(next_ms / 1000, BUSY_S)

    def _record(self, note: ToNote) -> Out:
        mark, topic = note.mark(), self._outbound.topics.runs
        key = Topics.home_key(self._partition, mark)
        return Out(topic, wire.encode_home(self._partition, mark), key, partition=0)

    async def _tell(self) -> int:
        """Tell partitions what is new, and their home what they answer; how many were told.

        Those that do not answer, or still have pages in flight, are told the next time.
        """
        by_partition = defaultdict[int, list[Tell]](list)
        for tell in await self._home.tells():
            by_partition[tell.partition].append(tell)
        told = 0
        for partition, tells in by_partition.items():
            try:
                answers = await self._frontiers[partition].contexts.tell(tells)
            except Unavailable as error:
                name = self._frontiers.name(partition)
                log.warning("homes", outcome="waiting", partition=name, error=str(error))
                continue
            await self._home.told(answers)
            told += len(answers)
        return told
