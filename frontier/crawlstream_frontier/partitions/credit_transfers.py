"""Credits of page limits, carried between partitions and the coordinators of crawls.

A process that meets links waiting for credits has them carried in the background; intake waits for
its seeds' credits. Any number of processes may do so at once, and each may die: the links remain.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple

import structlog

from crawlstream.errors import CrawlstreamError, RedisUnavailable
from crawlstream.model.partitions.messages import ContextKey
from crawlstream.tasks import end, together
from crawlstream_frontier.codec.credits import NOTHING, Draw, Grant, NoGrant
from crawlstream_frontier.partition_calls.contexts import Contexts
from crawlstream_frontier.partition_calls.coordinator import Coordinator
from crawlstream_frontier.partitions.answers import Queryable

AGAIN_S, SELDOM_S = 0.02, 1.0
"""Pause before an undecided request is repeated: it grows with each attempt without success."""

log = structlog.get_logger()


class Drawn(NamedTuple):
    """Outcome of a partition's request for credits."""

    is_all: bool
    """All of it was granted, or refused."""
    is_any: bool
    """Some of it was."""


class CreditTransfers:
    """Carries credits until no link waits for any; one task per partition and context."""

    def __init__(self, frontiers: Queryable) -> None:
        self._frontiers = frontiers
        self._tasks: dict[tuple[int, ContextKey], asyncio.Task[None]] = {}
        self._again = set[tuple[int, ContextKey]]()

    def carry(self, partition: int, contexts: Iterable[ContextKey]) -> None:
        """Carry credits of these contexts to a partition soon."""
        for context in contexts:
            key = partition, context
            if key in self._tasks:
                self._again.add(key)
                continue
            task = self._tasks[key] = asyncio.create_task(self._carry(*key))
            task.add_done_callback(partial(self._ended, key))

    async def stop(self) -> None:
        """Cancel the running tasks."""
        await end(self._tasks.values())

    def _ended(self, key: tuple[int, ContextKey], _: asyncio.Task[None]) -> None:
        self._tasks.pop(key, None)

    async def _carry(self, partition: int, context: ContextKey) -> None:
        key, pause_s = (partition, context), AGAIN_S
        while True:
            self._again.discard(key)
            try:
                drawn = await self.draw(partition, context)
            except CrawlstreamError as error:
                log.warning(
                    "credits",
                    outcome="no_answer",
                    partition=partition,
                    crawl=str(context.crawl),
                    error=str(error),
                )
                drawn = Drawn(is_all=False, is_any=False)
            if drawn.is_all and key not in self._again:
                return
            pause_s = AGAIN_S if drawn.is_any else min(2 * pause_s, SELDOM_S)
            await asyncio.sleep(0 if drawn.is_all else pause_s)

    async def draw(self, partition: int, context: ContextKey) -> Drawn:
        """Draw credits for a partition; Unavailable: a needed partition does not answer."""
        contexts, coordinator = self._contexts(partition), self._coordinator(context)
        draw, is_any = await contexts.count(context), False
        while draw.wanted or draw.ready:
            grant = (
                await self._ask(coordinator, context, partition, draw) if draw.wanted else NOTHING
            )
            if isinstance(grant, NoGrant):
                return Drawn(is_all=grant.why == "OVER", is_any=is_any)
            former = draw
            draw = await contexts.granted(context, grant)
            if draw.account == former.account and draw.waiting >= former.waiting:
                return Drawn(is_all=False, is_any=is_any)
            is_any = True
        return Drawn(is_all=True, is_any=is_any)

    async def _ask(
        self, coordinator: Coordinator, context: ContextKey, partition: int, draw: Draw
    ) -> Grant | NoGrant:
        """Return the coordinator's grant; if it is small, others first return unneeded credits."""
        grant = await coordinator.draw(context, {partition: draw}, asker=partition)
        if isinstance(grant, NoGrant) and grant.why == "COUNT":
            counted = await self._count(context, grant.coordinator_epoch)
            grant = await coordinator.draw(
                context, counted, asker=partition, counted_in=grant.coordinator_epoch
            )
        if isinstance(grant, Grant) and grant.holders and not _adds(grant, draw):
            given_back = await self._give_back(context, grant.holders)
            draws = {partition: draw, **given_back}
            grant = await coordinator.draw(context, draws, asker=partition)
        return grant

    async def _count(self, context: ContextKey, coordinator_epoch: int) -> Mapping[int, Draw]:
        """Return the accounts of all partitions; RedisUnavailable: one does not answer."""
        every = range(self._frontiers.partitions.number)
        draws = await together(
            self._contexts(p).count(context, coordinator_epoch=coordinator_epoch) for p in every
        )
        return dict(zip(every, draws, strict=True))

    async def _give_back(self, context: ContextKey, holders: Iterable[int]) -> Mapping[int, Draw]:
        """Return the accounts of those that answer, without the credits that they do not need."""
        given_back = {}
        for partition in holders:
            try:
                given_back[partition] = await self._contexts(partition).count(
                    context, give_back=True
                )
            except RedisUnavailable as error:
                name = self._frontiers.name(partition)
                log.warning("credits", outcome="waiting", partition=name, error=str(error))
        return given_back

    def _contexts(self, partition: int) -> Contexts:
        return self._frontiers[partition].contexts

    def _coordinator(self, context: ContextKey) -> Coordinator:
        return self._frontiers[self._frontiers.partitions.coordinator(context.crawl)].coordinator


def _adds(grant: Grant, draw: Draw) -> bool:
    return grant.total > draw.drawn
