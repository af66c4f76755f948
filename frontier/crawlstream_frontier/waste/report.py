"""A sketch as people and programs read it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from crawlstream_frontier.waste.families import Family
from crawlstream_frontier.waste.persons import PersonVerdict
from crawlstream_frontier.waste.sketch import Sketch


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyReport:
    """A family of URLs, and the counters since its latest verdict."""

    family: str
    verdict: str
    counts: dict[str, int]
    """Counters by the names of ``YieldCounts``, and ``eq`` and ``ne``."""
    neighbour: bool | None = None
    """True if its site has shown a made-up neighbour; None: none was requested."""
    releases: int = 0
    """Number of times that its verdict was taken back, in turns of less than a day; at most 4."""

    @property
    def summary(self) -> str:
        """Return the counters in words."""
        counts = self.counts
        known, pages = counts["heavy"] + counts["dup"], counts["pages"]
        found = counts["credit_fresh"] + counts["credit_maybe"]
        text = f"{known} of {pages} pages had a known text; led to {found} that may be new"
        if compared := counts["eq"] + counts["ne"]:
            text += f"; {counts['eq']} of {compared} had the same text with another value"
        if self.neighbour is not None:
            text += f"; a made-up neighbour was {'there' if self.neighbour else 'not there'}"
        return text


@dataclass(frozen=True, slots=True)
class PersonReport:
    """Manual verdict on a family of URLs."""

    family: str
    verdict: str
    """``allow`` or ``refuse``."""
    author: str
    at: int
    """Epoch seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SketchReport:
    """Sketch of a site, in plain values."""

    site: str
    pages: int
    """Pages that have voted."""
    changed: int
    """Epoch seconds of the latest change of a verdict; 0: there was none."""
    families: tuple[FamilyReport, ...]
    """Families with a verdict first, then by their pages."""
    persons: tuple[PersonReport, ...] = ()
    """Verdicts of persons, which prevail."""


def report_of(site: str, sketch: Sketch, persons: Iterable[PersonVerdict] = ()) -> SketchReport:
    """Return the report of a site; with a name only for families with a verdict."""
    families = sorted(sketch.families, key=lambda each: (each.is_plain, -each.counts.pages))
    return SketchReport(
        site=site,
        pages=sketch.pages,
        changed=sketch.changed,
        families=tuple(map(_family, families)),
        persons=tuple(
            PersonReport(each.family, each.verdict, each.author, each.at)
            for each in persons
            if each.site == site
        ),
    )


def _family(family: Family) -> FamilyReport:
    counts = {**asdict(family.counts), "eq": family.eq, "ne": family.ne}
    is_asked = family.is_confirmed or family.missing > 0
    return FamilyReport(
        family=family.shown,
        verdict=family.verdict,
        counts=counts,
        neighbour=family.is_confirmed if is_asked else None,
        releases=family.releases,
    )
