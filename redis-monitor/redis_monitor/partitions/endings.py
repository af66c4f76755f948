"""Ends runs that are over in all partitions, and has partitions hear what their homes say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence

import structlog

from crawlstream.errors import Unavailable
from crawlstream.frontier.partitions.confirm import is_over, summed
from crawlstream.frontier.partitions.frontiers import Frontiers
from crawlstream.frontier.partitions.labelling import Labelling
from crawlstream.model.partitions.messages import Look, OpenRun, Question, Tell
from crawlstream.tasks import together

IDLE_S, BUSY_S = 1.0, 0.1
"""Pause between two looks of a home: where it has no run that might be over, and where it has."""
RUNS_A_LOOK = 200

log = structlog.get_logger()


class Endings:
    """The duty of one home; safe beside any number of others.

    A run is over if one look at all partitions says so, in whatever order they are looked at; a
    partition that does not answer leaves all runs open.
    """

    def __init__(
        self,
        frontiers: Frontiers,
        partition: int,
        labelling: Labelling,
        *,
        grace_ms: int,
        links_topic: Callable[[], Awaitable[str]],
    ) -> None:
        """``links_topic`` answers the UUID of the topic of links, and is asked once."""
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
        return BUSY_S if runs or told else IDLE_S

    async def _look(self, runs: Sequence[OpenRun]) -> None:
        self._topic_id = self._topic_id or await self._links_topic()
        contexts = [run.context for run in runs]
        looks = await together(each.contexts.look(contexts) for each in self._frontiers)
        self._confirm(runs, looks)
        for number, run in enumerate(runs):
            if is_over(run, looks, number, self._topic_id):
                ended = await self._home.finish(run, summed(looks, number))
                log.info(
                    "homes", outcome="over", crawl=str(run.context.crawl), run=run.run, ended=ended
                )

    def _confirm(self, runs: Sequence[OpenRun], looks: Sequence[Look]) -> None:
        """Ask about contexts that nobody may lease from, or that wait for credits."""
        for partition, look in enumerate(looks):
            pairs = [*zip(runs, look.reports, strict=True)]
            unconfirmed = [
                Question(run.context)
                for run, report in pairs
                if not (report.is_idle or report.is_leasable)
            ]
            short = [
                Question(run.context, is_of_credits=True)
                for run, report in pairs
                if report.is_short
            ]
            self._labelling.ask(partition, [*unconfirmed, *short])

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
