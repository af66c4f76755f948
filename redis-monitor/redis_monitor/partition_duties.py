"""Duties of a redis-monitor for each partition: an unavailable one pauses only its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from crawlstream.boot.liveness import Liveness
from crawlstream.bus.outbound import Outbound
from crawlstream.plugins import Context
from crawlstream.stats.tally import Tally
from crawlstream_frontier.partitions.frontiers import Frontiers
from crawlstream_frontier.partitions.labelling import Labelling
from crawlstream_frontier.wake import Sleeper
from redis_monitor.action_runner import ActionRunner
from redis_monitor.actions import load_actions
from redis_monitor.maintenance import Maintenance
from redis_monitor.outbox import OutboxPublisher
from redis_monitor.partitions.ending_records import EndingRecords
from redis_monitor.partitions.endings import Endings
from redis_monitor.periodic import PeriodicTask, Step
from redis_monitor.sharing import Sharing
from redis_monitor.shelving import Shelving


class PartitionDuties:
    """Makes the tasks of partitions, which are the same for each."""

    def __init__(
        self,
        frontiers: Frontiers,
        sharing: Sharing,
        consumer: str,
        *,
        outbound: Outbound,
        tally: Tally,
    ) -> None:
        """``consumer`` is the name of this process in the consumer groups."""
        self._frontiers = frontiers
        self._sharing = sharing
        self._consumer = consumer
        self._outbound = outbound
        self._tally = tally

    def actions(self, context: Context) -> Sequence[PeriodicTask]:
        """Answer the actions requested of each partition."""
        return [self._answering(p, context) for p in range(len(self._frontiers))]

    def outboxes(self) -> Sequence[PeriodicTask]:
        """Publish the outbox of each partition."""
        return [self._publishing(p) for p in range(len(self._frontiers))]

    @asynccontextmanager
    async def maintenance(self) -> AsyncIterator[Sequence[PeriodicTask]]:
        """Tend each partition, and carry its chunks to and from the shelf."""
        async with AsyncExitStack() as stack:
            tasks = []
            for p, frontier in enumerate(self._frontiers):
                tend = await stack.enter_async_context(self._woken(p, "tend"))
                step = Maintenance(frontier.maintenance, tend).step
                tasks.append(self._task(p, Liveness("tend"), step))
                shelf = await stack.enter_async_context(self._woken(p, "shelf"))
                step = Shelving(frontier.stocking, shelf).step
                tasks.append(self._task(p, Liveness("shelve"), step))
            yield tasks

    @asynccontextmanager
    async def endings(
        self,
        labelling: Labelling,
        *,
        grace_ms: int,
        dedupe_ms: int,
        links_topic: Callable[[], Awaitable[str]],
    ) -> AsyncIterator[Sequence[PeriodicTask]]:
        """End the runs of each coordinator, where there are several; see `Endings`."""
        async with AsyncExitStack() as stack:
            tasks = []
            for p in range(len(self._frontiers)) if len(self._frontiers) > 1 else ():
                duty = Endings(
                    self._frontiers,
                    p,
                    labelling,
                    outbound=self._outbound,
                    sleeper=await stack.enter_async_context(self._woken(p, "homes")),
                    grace_ms=grace_ms,
                    dedupe_ms=dedupe_ms,
                    links_topic=links_topic,
                )
                tasks.append(self._task(p, Liveness("homes"), duty.step))
            yield tasks

    def _answering(self, partition: int, context: Context) -> PeriodicTask:
        liveness = Liveness("answer")
        runner = ActionRunner(
            self._frontiers.streams(partition, self._consumer),
            load_actions(context),
            outbound=self._outbound,
            tally=self._tally,
            liveness=liveness,
        )
        return self._task(partition, liveness, runner.step)

    def _publishing(self, partition: int) -> PeriodicTask:
        liveness = Liveness("publish")
        is_whole = len(self._frontiers) == 1
        publisher = OutboxPublisher(
            self._frontiers.streams(partition, self._consumer),
            outbound=self._outbound,
            tally=self._tally,
            liveness=liveness,
            coordinators=None
            if is_whole
            else EndingRecords(partition, self._frontiers[partition].coordinator),
        )
        return self._task(partition, liveness, publisher.step)

    def _task(self, partition: int, liveness: Liveness, step: Step) -> PeriodicTask:
        name = f"partition {partition}" if len(self._frontiers) > 1 else ""
        return PeriodicTask(liveness, self._sharing.duty(partition, step), of=name)

    @asynccontextmanager
    async def _woken(self, partition: int, name: str) -> AsyncIterator[Sleeper]:
        sleeper = self._frontiers.sleeper(partition, name)
        await sleeper.start()
        try:
            yield sleeper
        finally:
            await sleeper.stop()
