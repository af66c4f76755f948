"""Learn from the rows of a batch, one after the other: pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from crawlstream.plugins.sinks import Row
from pipeline_service.memory.known_page import KnownPage, is_news, learn
from pipeline_service.memory.page_changes import LearntStep, ResultPlace
from pipeline_service.memory.seen import Seen
from pipeline_service.spec.rule import IntervalRule

SEEN = "seen"
"""The field of a row that has what its record says."""
PLACE = "place"
"""The field of a row that has the place of its record, a `ResultPlace`."""


@dataclass(slots=True)
class Learnt:
    """News of a batch, and the pages after it."""

    pages: dict[str, KnownPage] = field(default_factory=dict)
    """Pages that are not as they were, by key."""
    repeats: set[str] = field(default_factory=set)
    """Keys of rows that say nothing new."""
    steps: list[LearntStep] = field(default_factory=list)
    """The page before and after each row with news, in the order of the rows."""
    outcomes: Counter[str] = field(default_factory=Counter)


def said_by(rows: Sequence[Row]) -> Sequence[tuple[Row, Seen]]:
    """Return the rows that have news of a page, with the news."""
    return [(row, cast("Seen", row.fields[SEEN])) for row in rows if SEEN in row.fields]


def learn_all(
    said: Sequence[tuple[Row, Seen]], known: Mapping[str, KnownPage], rule: IntervalRule
) -> Learnt:
    """Return what follows from rows, given the pages that are known by key."""
    learnt = Learnt()
    for row, seen in said:
        page = learnt.pages.get(seen.key) or known.get(seen.key)
        if not is_news(page, seen):
            learnt.repeats.add(row.key)
        elif (after := learn(page, seen, rule)) is not None:
            learnt.outcomes[_outcome(page, after, seen)] += 1
            place = cast("ResultPlace", row.fields[PLACE])
            learnt.steps.append(LearntStep(page, after, seen, place))
            learnt.pages[seen.key] = after
    return learnt


def _outcome(before: KnownPage | None, after: KnownPage, seen: Seen) -> str:
    """A word for the change that was found."""
    if before is None:
        return "new"
    if seen.sight in ("there", "unmodified"):
        return "changed" if after.changes > before.changes else "unchanged"
    return str(seen.sight)
