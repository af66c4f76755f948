"""Several workers; the dead and the hung are replaced, and their values done one by one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Generic

from crawlstream.errors import ConfigError
from crawlstream.tasks import end
from crawlstream_extract.workers.job import (
    Died,
    Job,
    Outcome,
    WorkerLimits,
    WorkerLost,
    WorkersLost,
)
from crawlstream_extract.workers.worker import START_S, JobWorker

VALUES = 32
"""Values in one message."""
RENEWED_AFTER = 10_000
"""Values of one worker: what code of users leaks ends with it."""
_DEATHS = 3
"""Deaths of workers by one value, before it is given up."""
_STARTS = 3

Beat = Callable[[float], None]
"""Called while work continues, with the seconds for which no further call may come."""


class WorkerPool(Generic[Outcome]):
    """Workers that run the same job."""

    def __init__(self, job: Job[Outcome], limits: WorkerLimits, *, died: Died) -> None:
        self._job = job
        self._limits = limits
        self._died = died
        self._workers: list[JobWorker[Outcome]] = []

    async def open(self) -> Any:
        """Start them, and return what the work has told. ConfigError."""
        self._workers = [self._new() for _ in range(self._limits.workers)]
        starting = [asyncio.create_task(worker.start()) for worker in self._workers]
        try:
            await asyncio.gather(*starting)
        except BaseException as error:
            await end(starting)
            await self.close()
            if isinstance(error, WorkerLost):
                told = f"a worker has died while it loaded its work: {error}"
                raise ConfigError(told) from error
            raise
        return self._workers[0].told

    async def close(self) -> None:
        """End them all."""
        await asyncio.gather(*(worker.close() for worker in self._workers))
        self._workers.clear()

    async def run(self, values: Sequence[bytes], beat: Beat) -> Sequence[Outcome]:
        """The outcome of each value, in their order.

        ConfigError if the work cannot be made any more, WorkersLost.
        """
        size = max(1, min(VALUES, -(-len(values) // len(self._workers))))
        work = deque(range(0, len(values), size))
        found: dict[int, Sequence[Outcome]] = {}

        async def serve(slot: int) -> None:
            while work:
                start = work.popleft()
                found[start] = await self._done(slot, values[start : start + size], beat)

        tasks = [asyncio.create_task(serve(slot)) for slot in range(len(self._workers))]
        try:
            await asyncio.gather(*tasks)
        finally:
            await end(tasks)
        return list(chain.from_iterable(found[start] for start in sorted(found)))

    async def _done(self, slot: int, values: Sequence[bytes], beat: Beat) -> Sequence[Outcome]:
        """Return outcomes of one message; if its worker is lost, the rest is done one by one."""
        done: list[Outcome] = []
        lost = await self._attempt(slot, values, done, beat)
        # A value has killed that worker: assume the first that kills another one.
        before = 1 if lost else 0
        while len(done) < len(values):
            if await self._alone(slot, values[len(done)], done, beat, before=before):
                before = 0
        if self._workers[slot].served >= RENEWED_AFTER:
            await self._renew(slot, beat)
        return done

    async def _alone(
        self, slot: int, value: bytes, done: list[Outcome], beat: Beat, *, before: int
    ) -> bool:
        """Add the outcome of a value; return whether it cost workers, besides those ``before``."""
        deaths = 0
        while lost := await self._attempt(slot, [value], done, beat):
            deaths += 1
            if before + deaths >= _DEATHS:
                done.append(self._given_up(lost))
                break
        return deaths > 0

    async def _attempt(
        self, slot: int, values: Sequence[bytes], done: list[Outcome], beat: Beat
    ) -> WorkerLost | None:
        """Add outcomes to those that are done; the loss of the worker, which is replaced then."""
        try:
            beat(self._limits.timeout_s)
            async for outcomes in self._workers[slot].run(values):
                done += outcomes
                beat(self._limits.timeout_s)
        except WorkerLost as error:
            self._died(error)
            await self._renew(slot, beat)
            return error
        return None

    async def _renew(self, slot: int, beat: Beat) -> None:
        await self._workers[slot].close()
        for attempt in range(1, _STARTS + 1):
            beat(START_S)
            self._workers[slot] = self._new()
            try:
                await self._workers[slot].start()
            except WorkerLost as error:
                if attempt == _STARTS:
                    raise WorkersLost(f"no worker can be started: {error}") from error
            else:
                return

    def _new(self) -> JobWorker[Outcome]:
        return JobWorker(self._job, self._limits)

    def _given_up(self, lost: WorkerLost) -> Outcome:
        sentence = f"{_DEATHS} workers were lost with it; the last one: {lost}"
        return self._job.lost(lost.kind, sentence)
