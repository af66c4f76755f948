"""Partitions that do not answer, or are full: how long they are waited for, and who goes on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

import structlog

from crawlstream.errors import FrontierFull, RedisUnavailable
from crawlstream.tasks import end
from kafka_monitor.partitions.cursors import Cursors, LeftBehind

LEAVE_AFTER_S = 3.0
"""Time to wait for a partition that does not answer before the others go on without it."""

T = TypeVar("T")

log = structlog.get_logger()


class CoordinatorUnavailable(RedisUnavailable):
    """A coordinator does not answer, although the partition that was called does."""

    def __init__(self, text: str, coordinator: int) -> None:
        super().__init__(text)
        self.coordinator = coordinator


class UnavailablePartitions:
    """Decides which partitions are left behind, and has them catch up."""

    catch_up: Callable[[Cursors, int], Coroutine[Any, Any, None]]
    """Ends when a partition has come as far as the others; to be set before anything is done."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._failing_since: dict[int, float] = {}

    async def each(
        self, cursors: Cursors, work: Mapping[int, Awaitable[T]], *, waits_for: int = -1
    ) -> dict[int, T]:
        """Return the answers of partitions, without those that are left behind from now on.

        RedisUnavailable, FrontierFull: a partition has to be waited for, always so for the one that
        ``waits_for`` names. Any other error of a partition is raised.
        """
        began = time.monotonic()
        ended = await asyncio.gather(*work.values(), return_exceptions=True)
        answers: dict[int, T] = {}
        waiting: list[BaseException] = []
        for partition, answer in zip(work, ended, strict=True):
            if not isinstance(answer, BaseException):
                self._failing_since.pop(partition, None)
                answers[partition] = answer
            elif not isinstance(answer, RedisUnavailable | FrontierFull):
                raise answer
            elif isinstance(answer, CoordinatorUnavailable):
                # The partition is up: retry without the seeds whose coordinator is down.
                self._may_leave(cursors, answer.coordinator, answer, began=began)
                waiting.append(answer)
            elif partition == waits_for or not self._may_leave(
                cursors, partition, answer, began=began
            ):
                waiting.append(answer)
        if waiting:
            raise waiting[0]
        return answers

    def _may_leave(
        self,
        cursors: Cursors,
        partition: int,
        error: RedisUnavailable | FrontierFull,
        *,
        began: float,
    ) -> bool:
        """Leave a partition behind, unless it may answer soon, or no other would go on.

        ``began``: since when it has been waited for, which may be long until it is an error.
        """
        is_unavailable = isinstance(error, RedisUnavailable)
        since = self._failing_since.setdefault(partition, began)
        if is_unavailable and time.monotonic() - since < LEAVE_AFTER_S:
            return False
        if len(cursors.left.keys() | {partition}) == self._partitions:
            return False
        self.leave_behind(cursors, partition, str(error), is_unavailable=is_unavailable)
        return True

    def leave_behind(
        self, cursors: Cursors, partition: int, why: str, *, is_unavailable: bool
    ) -> None:
        """The others go on without it from now on; one that is full may be away later, too."""
        left = cursors.left.setdefault(partition, LeftBehind(is_unavailable=is_unavailable))
        left.is_unavailable = left.is_unavailable or is_unavailable
        if left.catching_up is None:
            log.warning("put", outcome="left_behind", frontier_partition=partition, why=why)
            left.catching_up = asyncio.create_task(self.catch_up(cursors, partition))

    def rejoin(self, cursors: Cursors, partition: int) -> None:
        """It has caught up."""
        del cursors.left[partition]
        self._failing_since.pop(partition, None)
        log.info("put", outcome="caught_up", frontier_partition=partition)

    async def end(self, cursors: Cursors) -> None:
        """End tasks in progress; partitions stay left behind until the next beginning."""
        tasks = [each.catching_up for each in cursors.left.values()]
        await end([task for task in [*tasks, cursors.moving] if task])
