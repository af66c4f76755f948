"""Several workers; the dead and the hung are replaced, and their records done one by one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from crawlstream.errors import ConfigError, CrawlstreamError
from crawlstream.model.delivered import Delivered
from crawlstream.tasks import end
from pipeline_service.spec.stages import ChainPlan
from pipeline_service.stages.chain import PageOutcome
from pipeline_service.workers.worker import START_S, StageWorker, WorkerLost

STAGE_KILLED, STAGE_TIMEOUT = "stage_killed", "stage_timeout"
RECORDS = 32
"""Records in one message."""
RENEWED_AFTER = 10_000
"""Records of one worker: what code of users leaks ends with it."""
_DEATHS = 3
"""Deaths of workers by one record, before it is undelivered."""
_STARTS = 3

Beat = Callable[[float], None]
"""Called while work continues, with the seconds for which no further call may come."""
Died = Callable[[str], None]
"""Told of a worker that has died: ``killed``, ``memory`` or ``timeout``."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """Limits of a worker."""

    workers: int
    timeout_s: float = 30.0
    """Seconds for one record."""
    memory_mb: int = 1024
    """Address space of a worker in MB; 0: unlimited."""


class WorkerPool:
    """Workers that run the same stages."""

    def __init__(self, plan: ChainPlan, limits: WorkerLimits, *, died: Died) -> None:
        self._plan = plan
        self._limits = limits
        self._died = died
        self._workers: list[StageWorker] = []

    async def open(self) -> Mapping[str, Any] | None:
        """Start them; answers the JSON Schema of the items. ConfigError."""
        self._workers = [self._new() for _ in range(self._limits.workers)]
        starting = [asyncio.create_task(worker.start()) for worker in self._workers]
        try:
            await asyncio.gather(*starting)
        except BaseException as error:
            await end(starting)
            await self.close()
            if isinstance(error, WorkerLost):
                told = f"a worker has died while it loaded the stages: {error}"
                raise ConfigError(told) from error
            raise
        return self._workers[0].schema

    async def close(self) -> None:
        """End them all."""
        await asyncio.gather(*(worker.close() for worker in self._workers))
        self._workers.clear()

    async def run(
        self, pages: Sequence[tuple[bytes, Delivered]], beat: Beat
    ) -> Sequence[PageOutcome]:
        """The outcome of each page, in their order.

        ConfigError if the stages cannot be loaded any more.
        """
        values = [value for value, _ in pages]
        size = max(1, min(RECORDS, -(-len(values) // len(self._workers))))
        work = deque(range(0, len(values), size))
        outcomes: list[PageOutcome] = [PageOutcome()] * len(values)

        async def serve(slot: int) -> None:
            while work:
                start = work.popleft()
                found = await self._done(slot, values[start : start + size], beat)
                outcomes[start : start + len(found)] = found

        tasks = [asyncio.create_task(serve(slot)) for slot in range(len(self._workers))]
        try:
            await asyncio.gather(*tasks)
        finally:
            await end(tasks)
        return outcomes

    async def _done(self, slot: int, values: Sequence[bytes], beat: Beat) -> Sequence[PageOutcome]:
        """Return outcomes of one message; if its worker is lost, the rest is done one by one."""
        done: list[PageOutcome] = []
        lost = await self._attempt(slot, values, done, beat)
        # A record has killed that worker: assume the first that kills another one.
        before = 1 if lost else 0
        while len(done) < len(values):
            if await self._alone(slot, values[len(done)], done, beat, before=before):
                before = 0
        if self._workers[slot].served >= RENEWED_AFTER:
            await self._renew(slot, beat)
        return done

    async def _alone(
        self, slot: int, value: bytes, done: list[PageOutcome], beat: Beat, *, before: int
    ) -> bool:
        """Add the outcome of a record; return whether it cost workers, besides those ``before``."""
        deaths = 0
        while lost := await self._attempt(slot, [value], done, beat):
            deaths += 1
            if before + deaths >= _DEATHS:
                done.append(_outcome_of(lost))
                break
        return deaths > 0

    async def _attempt(
        self, slot: int, values: Sequence[bytes], done: list[PageOutcome], beat: Beat
    ) -> WorkerLost | None:
        """Add outcomes to those that are done; the loss of the worker, which is replaced then."""
        try:
            beat(self._limits.timeout_s)
            async for outcomes in self._workers[slot].run(values):
                done += outcomes
                beat(self._limits.timeout_s)
        except WorkerLost as error:
            self._died(error.kind)
            log.warning("stage", outcome="worker_lost", error=str(error))
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
                    raise StagesLost(f"no worker can be started: {error}") from error
            else:
                return

    def _new(self) -> StageWorker:
        limits = self._limits
        return StageWorker(self._plan, timeout_s=limits.timeout_s, memory_mb=limits.memory_mb)


class StagesLost(CrawlstreamError):
    """Workers die before they have a record."""


def _outcome_of(lost: WorkerLost) -> PageOutcome:
    reason = STAGE_TIMEOUT if lost.kind == "timeout" else STAGE_KILLED
    sentence = f"{_DEATHS} workers were lost with it; the last one: {lost}"
    return PageOutcome(reason=reason, errors=[sentence])
