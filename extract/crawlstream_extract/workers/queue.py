"""Workers for callers that have one value each, and wait for its outcome."""

from __future__ import annotations

import asyncio
from typing import Any, Generic

from crawlstream.errors import CrawlstreamError
from crawlstream.retry import Backoff
from crawlstream.tasks import end
from crawlstream_extract.workers.job import Died, Job, Outcome, WorkerLimits, WorkerLost
from crawlstream_extract.workers.pool import RENEWED_AFTER
from crawlstream_extract.workers.worker import JobWorker

_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
"""Between attempts to start a worker again."""


class WorkersBusy(CrawlstreamError):
    """Too many values wait, or none of the workers was free in time: call again later."""


class WorkerQueue(Generic[Outcome]):
    """Runs a job for many callers; the dead and the hung are replaced while others work.

    It starts with one worker, which is ready soonest, and with the others when values wait.
    A value that loses its worker is given up at once: its caller waits, and others have to.
    """

    def __init__(
        self, job: Job[Outcome], limits: WorkerLimits, *, most_waiting: int, died: Died
    ) -> None:
        """At most ``most_waiting`` values wait for a worker, each for ``limits.timeout_s``."""
        self._job = job
        self._limits = limits
        self._most_waiting = most_waiting
        self._died = died
        self._free: asyncio.Queue[JobWorker[Outcome]] = asyncio.Queue()
        self._workers: set[JobWorker[Outcome]] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._waiting = 0
        self._begun = 0

    async def open(self) -> None:
        """Start the first worker; ConfigError if the work cannot be made, WorkerLost."""
        self._begun = 1
        await self._start()

    async def close(self) -> None:
        """End the workers, and their current jobs."""
        await end(self._tasks)
        await asyncio.gather(*(worker.close() for worker in self._workers))
        self._workers.clear()

    async def run(self, value: bytes) -> Outcome:
        """Return the outcome of a value; WorkersBusy.

        A caller that is cancelled leaves its value to the worker, whose answer is dropped.
        """
        worker = await self._next()
        serving = self._task(self._serve(worker, value))
        return await asyncio.shield(serving)

    async def _next(self) -> JobWorker[Outcome]:
        if self._free.empty():
            if self._waiting >= self._most_waiting:
                raise WorkersBusy(f"{self._waiting} wait for a worker already")
            if self._begun < self._limits.workers:
                self._begun += 1
                self._task(self._add())
        self._waiting += 1
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                return await self._free.get()
        except TimeoutError:
            raise WorkersBusy("no worker was free in time") from None
        finally:
            self._waiting -= 1

    async def _serve(self, worker: JobWorker[Outcome], value: bytes) -> Outcome:
        try:
            (found,) = [outcome async for (outcome,) in worker.run([value])]
        except WorkerLost as error:
            self._died(error)
            self._task(self._replace(worker))
            return self._job.lost(error.kind, str(error))
        if worker.served >= RENEWED_AFTER:
            self._task(self._replace(worker))
        else:
            self._free.put_nowait(worker)
        return found

    async def _replace(self, worker: JobWorker[Outcome]) -> None:
        """End a worker, and start another one."""
        self._workers.discard(worker)
        await worker.close()
        await self._add()

    async def _add(self) -> None:
        """Start a worker; try until that succeeds."""
        pauses = Backoff(_PAUSE_S, _LONGEST_PAUSE_S)
        while True:
            try:
                await self._start()
            except WorkerLost as error:
                self._died(error)
                await asyncio.sleep(next(pauses))
            else:
                return

    async def _start(self) -> None:
        worker = JobWorker(self._job, self._limits)
        self._workers.add(worker)
        try:
            await worker.start()
        except BaseException:
            self._workers.discard(worker)
            await worker.close()
            raise
        self._free.put_nowait(worker)

    def _task(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
