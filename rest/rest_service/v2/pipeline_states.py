"""States of pipelines, combined from the heartbeats of their processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crawlstream.called import COMMAND
from crawlstream.model.process import Process


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineState:
    """A pipeline of which a process lives; all numbers are of its latest edition."""

    name: str
    edition: int
    source: str
    """Name of its topic."""
    state: str
    """``running``, ``waiting`` (for a service) or ``broken`` (waits for an operator)."""
    problem: str
    """Reason why it waits; empty: it does not."""
    remedy: str
    """The command that shows more of the problem; empty: there is none."""
    processes: int
    rate: float
    """Records per second that its processes have stored lately, with those of their others."""
    lag: int
    """Records that are not stored yet."""
    oldest_s: float
    """Age of the oldest record that is read and not stored yet; 0: there is none."""
    positions: Mapping[str, int] = field(default_factory=dict)
    """Partition -> offset of the first record that is not stored."""
    read: int = 0
    delivered: int = 0
    repeats: int = 0
    lost: int = 0
    filtered: Mapping[str, int] = field(default_factory=dict)
    undelivered: Mapping[str, int] = field(default_factory=dict)


def states_of(processes: Iterable[Process]) -> Sequence[PipelineState]:
    """Return all pipelines, sorted; a partition counts as far as any process has read it."""
    told: dict[str, list[tuple[Process, Mapping[str, Any]]]] = {}
    for one in processes:
        for name, report in one.pipelines.items():
            told.setdefault(name, []).append((one, report))
    return [_state(name, told[name]) for name in sorted(told)]


def _state(name: str, told: Sequence[tuple[Process, Mapping[str, Any]]]) -> PipelineState:
    edition = max(report["edition"] for _, report in told)
    latest = [(one, report) for one, report in told if report["edition"] == edition]
    reports = [report for _, report in latest]
    broken = next((report["broken"] for report in reports if report["broken"]), "")
    waiting = next((report["waiting_for"] for report in reports if report["waiting_for"]), "")
    partitions = _partitions(reports)
    total = {key: sum(part[key] for part in partitions.values()) for key in _NUMBERS}
    return PipelineState(
        name=name,
        edition=edition,
        source=reports[0]["source"],
        state="broken" if broken else "waiting" if waiting else "running",
        problem=broken or waiting,
        remedy=_remedy(name, broken, waiting),
        processes=len(latest),
        rate=sum(one.activity.rate or 0 for one, _ in latest),
        lag=sum(max(part["end"] - part["position"], 0) for part in partitions.values()),
        oldest_s=max(report["oldest_s"] for report in reports),
        positions={str(number): part["position"] for number, part in sorted(partitions.items())},
        filtered=_by_reason(part["filtered"] for part in partitions.values()),
        undelivered=_by_reason(part["undelivered"] for part in partitions.values()),
        **total,
    )


_NUMBERS = ("read", "delivered", "repeats", "lost")


def _partitions(reports: Iterable[Mapping[str, Any]]) -> Mapping[int, Mapping[str, Any]]:
    """Return partitions by number; a process that has lost one may report an old position."""
    found: dict[int, dict[str, Any]] = {}
    for report in reports:
        for text, part in report["partitions"].items():
            known = found.get(int(text))
            end = max(part["end"], known["end"] if known else 0)
            if known is None or part["position"] >= known["position"]:
                found[int(text)] = dict(part)
            found[int(text)]["end"] = end
    return found


def _by_reason(told: Iterable[Mapping[str, int]]) -> Mapping[str, int]:
    whole: Counter[str] = Counter()
    for reasons in told:
        whole.update(reasons)
    return dict(whole.most_common())


def _remedy(name: str, broken: str, waiting: str) -> str:
    if "undelivered" in broken:
        return f"{COMMAND} pipeline undelivered list {name}"
    return f"{COMMAND} pipeline check {name}" if broken or waiting else ""
