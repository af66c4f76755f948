"""Fetch run labels from coordinator partitions and store them in the partitions that need them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable

import structlog

from crawlstream.errors import CrawlstreamError
from crawlstream.model.partitions.messages import Question
from crawlstream.tasks import end
from crawlstream_frontier.partitions.confirm import confirm
from crawlstream_frontier.partitions.credit_transfers import CreditTransfers
from crawlstream_frontier.partitions.frontiers import Frontiers

log = structlog.get_logger()


class Labelling:
    """Queries coordinators in the background, a partition's questions together, without waiting.

    A question without an answer now is dropped: the next lease or look asks it again.
    """

    def __init__(self, frontiers: Frontiers) -> None:
        self._frontiers = frontiers
        self._open: defaultdict[int, set[Question]] = defaultdict(set)
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self.credits = CreditTransfers(frontiers)
        """Carries credits for questions about credits."""

    def request(self, partition: int, questions: Iterable[Question]) -> None:
        """Answer these questions soon."""
        for question in questions:
            if question.is_of_credits:
                self.credits.carry(partition, [question.context])
            else:
                self._open[partition].add(question)
        if self._open[partition] and partition not in self._tasks:
            task = self._tasks[partition] = asyncio.create_task(self._answer(partition))
            task.add_done_callback(lambda _: self._tasks.pop(partition, None))

    async def stop(self) -> None:
        """Cancel the running queries."""
        await end(self._tasks.values())
        await self.credits.stop()

    async def _answer(self, partition: int) -> None:
        contexts = self._frontiers[partition].contexts
        while questions := [*self._open.pop(partition, ())]:
            try:
                epoch = await contexts.epoch()
                told = await confirm(
                    lambda crawl: self._frontiers.coordinator(crawl).coordinator,
                    contexts,
                    epoch,
                    questions,
                )
            except CrawlstreamError as error:
                log.warning("label", outcome="no_answer", partition=partition, error=str(error))
                return
            log.info("label", partition=partition, asked=len(questions), told=told)
