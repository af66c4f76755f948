"""The quality of runs for people: which field fails, how often, and by which rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline_service.commands.printing import print_line, print_table
from pipeline_service.records.account import RecordTally
from pipeline_service.spec.quality.expect import ItemJudge

MOST_RUNS = 10
"""Whose fields are listed, unless one crawl is named."""
_KEYS = ("items", "fields", "score", "expect", "ok")


def quality_of(tally: RecordTally, ending: Mapping[str, Any]) -> dict[str, Any]:
    """Return the quality reported when the run was stored; before that the numbers, not judged."""
    if "items" in ending:
        return {key: ending[key] for key in _KEYS if key in ending}
    counted = ItemJudge().record(tally.quality, pages=tally.wanted)
    return {key: counted[key] for key in ("items", "fields") if key in counted}


def print_fields(runs: Sequence[Mapping[str, Any]]) -> None:
    """A table of the fields that fail, or of which something is expected."""
    rows = [
        [str(run["crawlid"]), str(run["run"]), *cells] for run in runs for cells in _fields(run)
    ]
    if rows:
        print_line("")
        print_table(("crawlid", "run", "field", "present", "valid", "expected", "errors"), rows)
    elif any(run.get("fields") for run in runs):
        print_line("No item has an invalid field.")


def _fields(run: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    """The worst first."""
    wanted: dict[str, list[str]] = {}
    for one in run.get("expect", ()):
        name = next(key for key in one if key not in ("value", "met"))
        field, _, what = name.rpartition(".")
        wanted.setdefault(field, []).append(_expected(what, one[name], one))
    if "items" in wanted:
        yield "items", "", f"{run['items']:,}", ", ".join(wanted.pop("items")), ""
    fields = run.get("fields", {})
    for name in sorted(fields, key=lambda name: (fields[name].get("valid", 0), name)):
        told = fields[name]
        if name in wanted or told.get("errors"):
            errors = ", ".join(f"{rule} {count:,}" for rule, count in _by_count(told))
            shares = [_share(told[key]) if key in told else "" for key in ("present", "valid")]
            yield name, *shares, ", ".join(wanted.get(name, ())), errors


def _expected(what: str, least: float, one: Mapping[str, Any]) -> str:
    bound = f"{least:,}" if what == "min" else _share(least)
    return f"{what} {bound}: {'met' if one['met'] else 'missed'}"


def _by_count(told: Mapping[str, Any]) -> Sequence[tuple[str, int]]:
    errors = dict(told.get("errors", {}))
    return sorted(errors.items(), key=lambda each: (-each[1], each[0]))


def _share(value: float) -> str:
    """A share as people write it; only what is whole is 100 %."""
    text = f"{value:.1%}"
    return "<100%" if text == "100.0%" and value < 1 else text
