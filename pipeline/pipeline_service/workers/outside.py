"""Stages in workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog

from crawlstream.model.delivered import Delivered
from crawlstream_extract.workers.job import Job, WorkerLimits, WorkerLost
from crawlstream_extract.workers.pool import Beat, WorkerPool
from pipeline_service.spec.stages import ChainPlan
from pipeline_service.stages.chain import PageOutcome
from pipeline_service.workers.inside import STAGE_KILLED
from pipeline_service.workers.outcomes import outcome_of, plan_record

STAGE_TIMEOUT = "stage_timeout"

log = structlog.get_logger()


class Outside:
    """Runs the stages in several workers."""

    def __init__(self, plan: ChainPlan, limits: WorkerLimits, died: Callable[[str], None]) -> None:
        """``died`` is called with the cause: ``killed``, ``memory`` or ``timeout``."""

        def note(lost: WorkerLost) -> None:
            died(lost.kind)
            log.warning("stage", outcome="worker_lost", error=str(lost))

        job = Job(
            target="pipeline_service.workers.work:StageWork",
            argument=plan_record(plan),
            decode=outcome_of,
            lost=_lost,
        )
        self._pool = WorkerPool(job, limits, died=note)

    async def open(self) -> Mapping[str, Any] | None:
        """Start them; answers the JSON Schema of the items. ConfigError."""
        schema: Mapping[str, Any] | None = await self._pool.open()
        return schema

    async def close(self) -> None:
        """End the workers."""
        await self._pool.close()

    async def run(
        self, pages: Sequence[tuple[bytes, Delivered]], beat: Beat
    ) -> Sequence[PageOutcome]:
        """The outcome of each page, in their order. ConfigError, WorkersLost."""
        return await self._pool.run([value for value, _ in pages], beat)


def _lost(kind: str, sentence: str) -> PageOutcome:
    reason = STAGE_TIMEOUT if kind == "timeout" else STAGE_KILLED
    return PageOutcome(reason=reason, errors=[sentence])
