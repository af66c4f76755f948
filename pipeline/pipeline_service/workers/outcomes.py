"""Plans and outcomes as messages between a pipeline and a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from crawlstream_extract.workers.frames import packed, unpack
from pipeline_service.spec.quality.counts import QualityCounts
from pipeline_service.spec.stages import ChainPlan, StageSpec
from pipeline_service.stages.chain import MadeRow, PageOutcome
from pipeline_service.stages.draft import TOO_LARGE

MOST_ROW_BYTES = 8 << 20
"""Largest rows of one page in bytes."""


def plan_record(plan: ChainPlan) -> Mapping[str, Any]:
    """A plan as a message."""
    return {
        "stages": [asdict(spec) for spec in plan.stages],
        "counted": list(plan.counted),
        "folder": plan.folder,
    }


def plan_of(record: Mapping[str, Any]) -> ChainPlan:
    """The plan in a message."""
    stages = tuple(StageSpec(**spec) for spec in record["stages"])
    return ChainPlan(stages, tuple(record["counted"]), record["folder"])


def outcome_bytes(outcome: PageOutcome) -> bytes:
    """An outcome, packed; rows that are too large are an outcome of their own."""
    rows = outcome.rows
    told = None if rows is None else [[row.fields, row.number, list(row.errors)] for row in rows]
    quality = outcome.quality.as_record() if outcome.quality else None
    rest = [outcome.filtered, outcome.reason, list(outcome.errors), outcome.stage]
    made = packed([told, *rest, quality, list(outcome.times)])
    if len(made) <= MOST_ROW_BYTES:
        return made
    sentence = f"the rows have {len(made)} bytes: {MOST_ROW_BYTES} at most are stored"
    refused = PageOutcome(reason=TOO_LARGE, errors=[sentence], quality=None, times=outcome.times)
    return outcome_bytes(refused)


def outcome_of(made: bytes) -> PageOutcome:
    """Unpack an outcome; ValueError, TypeError, KeyError for anything else."""
    rows, filtered, reason, errors, stage, quality, times = unpack(made)
    return PageOutcome(
        rows=None if rows is None else [MadeRow(*row) for row in rows],
        filtered=filtered,
        reason=reason,
        errors=errors,
        stage=stage,
        quality=None if quality is None else QualityCounts.of_record(quality),
        times=times,
    )
