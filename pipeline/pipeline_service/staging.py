"""The stages of a pipeline between what was judged of its records and its sink."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any, Protocol, TypeGuard

from crawlstream.errors import ConfigError
from crawlstream.model.delivered import Delivered
from crawlstream_extract.workers.job import WorkerLimits
from crawlstream_extract.workers.pool import Beat
from pipeline_service.metrics import STAGE_SECONDS, WORKER_DEATHS
from pipeline_service.records.judging import FilteredRecord, Judged, Repeat, Undeliverable, Wanted
from pipeline_service.records.rows import Shape, StoreRow
from pipeline_service.spec.config import Pipeline
from pipeline_service.spec.quality.expect import ItemJudge
from pipeline_service.spec.schema import required
from pipeline_service.stages.chain import PageOutcome
from pipeline_service.workers.inside import Inside
from pipeline_service.workers.outside import Outside


class StageRunner(Protocol):
    """Runs stages over pages."""

    async def open(self) -> Mapping[str, Any] | None:
        """Load the stages; answers the JSON Schema of the items. ConfigError."""

    async def run(
        self, pages: Sequence[tuple[bytes, Delivered]], beat: Beat
    ) -> Sequence[PageOutcome]:
        """The outcome of each page, in their order."""

    async def close(self) -> None:
        """End what was opened."""


class Staging:
    """The stages of one pipeline, wherever they run; does nothing for one without stages."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.shape: Shape | None = None
        """Shape of rows, if they are not the pages themselves; known once it is open."""
        self.judge = ItemJudge(pipeline.expect)
        """Judge of the items of a run."""
        self.pipeline = pipeline
        self._runner: StageRunner | None = None
        self._took = [STAGE_SECONDS.labels(pipeline.name, spec.label) for spec in pipeline.stage]

    async def open(self) -> None:
        """Load the stages. ConfigError."""
        if not self.pipeline.stage:
            return
        runner = self._made()
        self._runner = runner
        schema = await runner.open()
        if self.pipeline.changes_rows:
            self.shape = Shape(self.pipeline.stage, schema)
        self.judge = ItemJudge(self.pipeline.expect, required(schema or {}))

    async def close(self) -> None:
        """End the workers."""
        if self._runner is not None:
            await self._runner.close()

    async def run(
        self, judged: Sequence[Judged], beat: Beat, is_known: Callable[[str], bool]
    ) -> Sequence[Judged]:
        """Return the records, their pages as the stages have left them. ConfigError, WorkersLost.

        Repeats of a page that ``is_known``, or that comes twice, are not staged: the first outcome
        stays.
        """
        if self._runner is None:
            return judged
        judged = list(_without_repeats(judged, is_known))
        staged = [each for each in judged if self._takes(each)]
        pages = [(each.value, each.page) for each in staged]
        outcomes = iter(await self._runner.run(pages, beat) if pages else ())
        return [self._after(each, next(outcomes)) if self._takes(each) else each for each in judged]

    def _takes(self, judged: Judged) -> TypeGuard[Wanted]:
        return isinstance(judged, Wanted) and self.pipeline.stages_take(judged.page)

    async def run_one(self, judged: Judged) -> Judged:
        """Stage one record by itself, wherever its page has been before."""
        (after,) = await self.run([judged], lambda _: None, lambda _: False)
        return after

    def _made(self) -> StageRunner:
        pipeline = self.pipeline
        if not pipeline.worker_count:
            return Inside(pipeline.plan)
        limits = WorkerLimits(
            workers=pipeline.worker_count, timeout_s=pipeline.timeout, memory_mb=pipeline.memory_mb
        )

        def died(cause: str) -> None:
            WORKER_DEATHS.labels(pipeline.name, cause).inc()

        return Outside(pipeline.plan, limits, died=died)

    def _after(self, judged: Wanted, outcome: PageOutcome) -> Judged:
        for took, (began, ended) in zip(self._took, pairwise(outcome.times), strict=False):
            took.observe(ended - began)
        known = (judged.record, judged.id, judged.run)
        if outcome.reason:
            why = (outcome.reason, outcome.quality, judged.marks)
            return Undeliverable(*known, *why, errors=outcome.errors, stage=outcome.stage)
        if outcome.filtered and self.pipeline.answers_visit(judged.page):
            return replace(judged, rows=(), quality=outcome.quality)
        if outcome.filtered:
            return FilteredRecord(*known, outcome.filtered, outcome.quality, judged.marks)
        if outcome.rows is None:
            return replace(judged, quality=outcome.quality) if outcome.quality else judged
        rows = [
            StoreRow(judged.page, judged.value, made.fields, made.number, made.errors)
            for made in outcome.rows
        ]
        return replace(judged, rows=rows, quality=outcome.quality)


@asynccontextmanager
async def opened(
    pipelines: Sequence[Pipeline], make: Callable[[Pipeline], Staging] = Staging
) -> AsyncIterator[Mapping[str, Staging]]:
    """The stages of each pipeline, by its name, ready to run; ConfigError."""
    stagings = {each.name: make(each) for each in pipelines}
    try:
        for each in pipelines:
            try:
                await stagings[each.name].open()
            except ConfigError as error:
                raise ConfigError(f"pipeline.{each.name}: {error}") from error
        yield stagings
    finally:
        for staging in stagings.values():
            await staging.close()


def _without_repeats(judged: Sequence[Judged], is_known: Callable[[str], bool]) -> Iterator[Judged]:
    seen: set[str] = set()
    for each in judged:
        if each.id and (each.id in seen or is_known(each.id)):
            yield Repeat(each.record, each.id, each.run)
        else:
            yield each
        seen.add(each.id)
