"""Messages between a pipeline and its workers: a length in four bytes, then msgpack."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import msgpack  # type: ignore[import-untyped]

from pipeline_service.spec.quality.counts import QualityCounts
from pipeline_service.spec.stages import ChainPlan, StageSpec
from pipeline_service.stages.chain import MadeRow, PageOutcome
from pipeline_service.stages.draft import TOO_LARGE

LENGTH = struct.Struct(">I")
MOST_BYTES = 32 << 20
"""Largest message of a worker in bytes; a message to it has at least one record."""
MOST_ROW_BYTES = 8 << 20
"""Largest rows of one page in bytes."""


def pack(value: object) -> bytes:
    """A message with its length."""
    body: bytes = msgpack.packb(value)
    return LENGTH.pack(len(body)) + body


def pack_values(values: Sequence[bytes]) -> bytes:
    """A message that is a list of bytes; ``pack`` would copy them twice more."""
    parts = [b"\xdd", LENGTH.pack(len(values))]
    for value in values:
        parts += (b"\xc6", LENGTH.pack(len(value)), value)
    return b"".join([LENGTH.pack(sum(map(len, parts))), *parts])


def unpack(body: bytes) -> Any:
    """A message; ValueError for anything else."""
    return msgpack.unpackb(body, strict_map_key=False)


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
    packed: bytes = msgpack.packb([told, *rest, quality, list(outcome.seconds)])
    if len(packed) <= MOST_ROW_BYTES:
        return packed
    sentence = f"the rows have {len(packed)} bytes: {MOST_ROW_BYTES} at most are stored"
    refused = PageOutcome(
        reason=TOO_LARGE, errors=[sentence], quality=None, seconds=outcome.seconds
    )
    return outcome_bytes(refused)


def outcome_of(record: Sequence[Any]) -> PageOutcome:
    """The outcome in a message; ValueError, TypeError, KeyError for anything else."""
    rows, filtered, reason, errors, stage, quality, seconds = record
    return PageOutcome(
        rows=None if rows is None else [MadeRow(*row) for row in rows],
        filtered=filtered,
        reason=reason,
        errors=errors,
        stage=stage,
        quality=None if quality is None else QualityCounts.of_record(quality),
        seconds=seconds,
    )
