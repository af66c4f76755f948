"""Quality of items for screens: each field over the runs, and missed expectations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class FieldOfRun:
    """A field of the items of a run; missing and malformed values are None."""

    field: str
    run: Mapping[str, Any]
    present: float | None
    valid: float | None
    errors: Sequence[tuple[str, int]]
    """Errors by rule, the most frequent first."""


def by_field(runs: Sequence[Mapping[str, Any]]) -> Sequence[FieldOfRun]:
    """Return the fields of runs, field by field, the runs of each in their order."""
    found = [
        _field(name, told, run)
        for run in runs
        if isinstance(run.get("fields"), Mapping)
        for name, told in run["fields"].items()
        if isinstance(told, Mapping)
    ]
    return sorted(found, key=lambda one: one.field)


def missed(run: Mapping[str, Any]) -> Sequence[str]:
    """Return missed expectations of a run with both values: ``price.valid 91.0% of 98.0%``."""
    told = run.get("expect")
    return [
        f"{name} {_written(name, one.get('value'))} of {_written(name, least)}"
        for one in (told if isinstance(told, list) else ())
        if isinstance(one, Mapping) and one.get("met") is False
        for name, least in one.items()
        if name not in ("value", "met")
    ]


def _field(name: str, told: Mapping[str, Any], run: Mapping[str, Any]) -> FieldOfRun:
    errors = told.get("errors")
    counts = _counts(errors.items() if isinstance(errors, Mapping) else ())
    return FieldOfRun(name, run, _number(told.get("present")), _number(told.get("valid")), counts)


def _counts(errors: Iterable[tuple[str, Any]]) -> Sequence[tuple[str, int]]:
    counts = [(rule, count) for rule, count in errors if isinstance(count, int)]
    return sorted(counts, key=lambda each: (-each[1], each[0]))


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number else None


def _written(name: str, value: Any) -> str:
    if _number(value) is None:
        return "none"
    return f"{value:,}" if name.endswith(".min") else f"{value:.1%}"
