"""Result of a run: a table for people, ``chaos-report.json`` for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

from crawlstream_chaos.facts.facts import Violation, endings_told
from crawlstream_chaos.laws.auditor import LAWS
from crawlstream_chaos.rounds import Footprint, RoundResult, results

FLAT = "memory and keys stay flat"
_WARM_UP = 2
"""Rounds after which nothing should grow any more."""
_GROWTH = 1.15
_KEYS_SLACK = 50
_BYTES_SLACK = 24 << 20
"""Allocators and garbage collectors take their time."""


def flatness(footprints: Sequence[Footprint]) -> Iterator[Violation]:
    """Yield the quantities that grew from round to round: the last rounds against early ones.

    The first rounds are a warm-up. The lowest value of three rounds counts, since one round may end
    in the middle of something.
    """
    steady = footprints[_WARM_UP:]
    if len(steady) < 6:
        return
    first, last = steady[:3], steady[-3:]
    keys = [min(each.keys for each in part) for part in (first, last)]
    if keys[1] > keys[0] + _KEYS_SLACK:
        yield Violation(FLAT, f"keys in Redis: {keys[0]}, then {keys[1]}")
    sizes = {"Redis": [min(each.redis_bytes for each in part) for part in (first, last)]}
    kinds = set.intersection(*(set(each.rss_bytes) for each in (*first, *last)))
    for kind in sorted(kinds):
        sizes[kind] = [min(each.rss_bytes[kind] for each in part) for part in (first, last)]
    for name, (before, after) in sizes.items():
        if after > before * _GROWTH + _BYTES_SLACK:
            yield Violation(FLAT, f"{name}: {before >> 20} MiB, then {after >> 20} MiB")


def show(outcomes: Sequence[RoundResult], flat: Sequence[Violation], console: Console) -> None:
    """Print one row per scenario, and every violation below."""
    table = Table("scenario", box=None, pad_edge=False)
    for name in ("rounds", "pages", "lost", "again", "at most", "asked", "violations", "s"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("faults that landed")
    for name, rounds in _by_scenario(outcomes).items():
        landed = sum((each.landed for each in rounds), Counter[str]())
        told = ", ".join(f"{count} {fault}" for fault, count in landed.most_common())
        table.add_row(name, str(len(rounds)), *_figures(rounds), told)
    console.print(table)
    for outcome in outcomes:
        for violation in outcome.violations:
            _tell(violation, f"{outcome.scenario}, seed {outcome.seed}", console)
    for violation in flat:
        _tell(violation, "all rounds", console)
    if not flat and not any(outcome.violations for outcome in outcomes):
        console.print("[green]Nothing was lost, and no law was broken.")


def _figures(rounds: Sequence[RoundResult]) -> Iterator[str]:
    """Pages, lost, repeats, their bound, visits, violations, seconds of one scenario."""
    yield str(sum(each.pages for each in rounds))
    yield str(sum(lost(each) for each in rounds))
    yield str(sum(each.repeated for each in rounds))
    yield str(sum(allowed(each) for each in rounds))
    yield str(sum(len(each.facts.visits) for each in rounds))
    yield str(sum(len(each.violations) for each in rounds))
    yield f"{sum(each.seconds for each in rounds):.0f}"


def _tell(violation: Violation, where: str, console: Console) -> None:
    sentence = f"{violation.law}: {violation.what} ({where})"
    console.print(sentence, style="red", markup=False, soft_wrap=True)


def _by_scenario(outcomes: Sequence[RoundResult]) -> Mapping[str, Sequence[RoundResult]]:
    names = dict.fromkeys(outcome.scenario for outcome in outcomes)
    return {name: [each for each in outcomes if each.scenario == name] for name in names}


def lost(outcome: RoundResult) -> int:
    """Return the number of pages that never came, of crawls that were not stopped."""
    came = {(r.value["crawlid"], r.value["url"]) for r in results(outcome.facts)}
    return sum(
        (fed.crawlid, url) not in came
        for fed in outcome.facts.fed
        if not fed.is_stopped
        for url in fed.delivered
    )


def allowed(outcome: RoundResult) -> int:
    """Results that may have come again: what was in flight where faults struck."""
    return sum(strike.in_flight for strike in outcome.facts.strikes)


def write(
    path: Path, outcomes: Sequence[RoundResult], flat: Sequence[Violation], **about: object
) -> None:
    """Seeds, faults with their times, counts, and a verdict for each law."""
    report = {
        **about,
        "ok": not flat and not any(outcome.violations for outcome in outcomes),
        "rounds": [_round(outcome) for outcome in outcomes],
        FLAT: [violation.what for violation in flat],
    }
    path.write_bytes(orjson.dumps(report, option=orjson.OPT_INDENT_2))


def _round(outcome: RoundResult) -> Mapping[str, Any]:
    began = min((strike.at for strike in outcome.facts.strikes), default=0.0)
    broken: dict[str, list[str]] = {law: [] for law in LAWS}
    for violation in outcome.violations:
        broken[violation.law].append(violation.what)
    return {
        "scenario": outcome.scenario,
        "seed": outcome.seed,
        "seconds": round(outcome.seconds, 1),
        "pages": outcome.pages,
        "lost": lost(outcome),
        "results": len(results(outcome.facts)),
        "repeats": outcome.repeated,
        "repeats_allowed": allowed(outcome),
        "endings": str(endings_told(outcome.facts)),
        "visits": len(outcome.facts.visits),
        "landed": outcome.landed,
        "strikes": [
            {
                "fault": strike.fault,
                "target": strike.target,
                "at_s": round((strike.at - began) / 1000, 2),
                "seconds": round(strike.seconds, 2),
                "was_pending": strike.was_pending,
                "in_flight": strike.in_flight,
            }
            for strike in outcome.facts.strikes
        ],
        "laws": {law: found or "kept" for law, found in broken.items()},
        "footprint": outcome.footprint,
    }
