"""Pipelines that end: when all records that their sources held at the start are stored.

The end of each source is noted before anything is read. Later records are left to the next run, and
nothing else is: files that are open when the end has been read are completed then, and the runs
that had ended are reported.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from crawlstream.boot.settings import Settings
from crawlstream.bus.connect import Kafka
from crawlstream.bus.history import partition_offsets, topic_id_of
from crawlstream.bus.tail import end_offsets
from crawlstream.errors import CrawlstreamError
from pipeline_service.flow import Flow
from pipeline_service.run_reporter import RunReporter
from pipeline_service.sink_factory import open_kept

_LOOK_EVERY_S = 0.5
_ASK_EVERY_S = 5.0
"""Stores are queried seldom: only records that other processes have stored meanwhile are news."""
GIVES_UP_S = 120.0
"""A run that ends does not wait longer for a store that cannot be reached."""

log = structlog.get_logger()


class NotStored(CrawlstreamError):
    """A pipeline has ended before all was stored."""


@dataclass(frozen=True, slots=True)
class Goal:
    """Where the source of a pipeline ended at the start, by partition that holds anything."""

    flow: Flow
    topic_id: str
    ends: Mapping[int, int]
    stored: dict[int, int] = field(default_factory=dict)
    """Last answer of the store; it only grows."""

    @property
    def is_read(self) -> bool:
        """Return whether all is stored, by any process, or in open files of this one."""
        return all(
            max(self.flow.read_up_to.get(number, 0), self.stored.get(number, 0)) >= end
            for number, end in self.ends.items()
        )

    @property
    def left(self) -> int:
        """Offsets that are not stored yet."""
        return sum(max(end - self.stored.get(number, 0), 0) for number, end in self.ends.items())


class Goals:
    """Goals of all pipelines of a process."""

    def __init__(
        self, settings: Settings, goals: Sequence[Goal], events: Mapping[int, int]
    ) -> None:
        self._settings = settings
        self._goals = goals
        self._events = events
        """Where the events topic ended before the sources, by partition."""
        self._answered = {goal.flow.pipeline.name: time.monotonic() for goal in goals}
        """When the store of each pipeline last answered."""

    @classmethod
    async def noted(cls, settings: Settings, kafka: Kafka, flows: Sequence[Flow]) -> Goals:
        """Ask Kafka where the sources end now. KafkaUnavailable."""
        goals, events = [], await end_offsets(kafka, settings.topics.events)
        for flow in flows:
            topic = flow.pipeline.topic(settings.topics)
            group = flow.pipeline.group(settings.topics)
            told = await partition_offsets(kafka, topic, group=group)
            ends = {number: each.end for number, each in told.items() if each.end > each.oldest}
            goals.append(Goal(flow, await topic_id_of(kafka, topic), ends))
        return cls(settings, goals, events)

    async def watch(self, stop: asyncio.Event) -> None:
        """Stop the pipelines when each has read all, or waits for an operator."""
        left, ask_at = list(self._goals), 0.0
        while not stop.is_set():
            if time.monotonic() >= ask_at:
                for goal in left:
                    await self._try_to_ask(goal)
                ask_at = time.monotonic() + _ASK_EVERY_S
            left = [goal for goal in left if not goal.flow.broken and not goal.is_read]
            lost = [goal for goal in left if self._is_lost(goal)]
            if len(left) == len(lost):
                log.info("end", why="store_unreachable" if lost else "all_read")
                stop.set()
            await asyncio.sleep(_LOOK_EVERY_S)

    def _is_lost(self, goal: Goal) -> bool:
        return time.monotonic() - self._answered[goal.flow.pipeline.name] > GIVES_UP_S

    async def check(self) -> None:
        """NotStored: a pipeline was stopped before, or could not go on; StoreUnavailable."""
        for goal in self._goals:
            name = goal.flow.pipeline.name
            if goal.flow.broken:
                raise NotStored(f"{name}: {goal.flow.broken}")
            await self._ask(goal)
            if goal.left:
                records = f"{goal.left:,} record{'s' * (goal.left != 1)}"
                raise NotStored(
                    f"{name} has ended with {records} left to store: run it again to go on;"
                    f" `crawlstream pipeline undelivered list {name}` shows what it could not store"
                )

    async def report(self, flow: Flow, reporter: RunReporter) -> None:
        """Report the runs of a pipeline that had ended at the start: all their pages are stored."""
        goal = next(each for each in self._goals if each.flow is flow)
        await reporter.catch_up(goal.topic_id, self._events, goal.ends)

    async def _try_to_ask(self, goal: Goal) -> None:
        try:
            await self._ask(goal)
        except CrawlstreamError as error:
            name = goal.flow.pipeline.name
            log.debug("read", pipeline=name, outcome="end_unknown", error=str(error))

    async def _ask(self, goal: Goal) -> None:
        kept = open_kept(self._settings, goal.flow.pipeline)
        try:
            found = await asyncio.to_thread(kept.standings, goal.topic_id, goal.ends)
        finally:
            kept.close()
        self._answered[goal.flow.pipeline.name] = time.monotonic()
        goal.stored.update({number: each.position or 0 for number, each in found.items()})
