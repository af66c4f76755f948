"""A sketch in words."""

from __future__ import annotations

import pytest

from crawlstream_frontier.waste.packing import pack, unpack
from crawlstream_frontier.waste.report import report_of
from crawlstream_frontier.waste.sketch import Sketch
from crawlstream_frontier.waste.votes import NeighbourAnswer, PagePair, PageVote, SitePlace


def test_a_report_has_the_families_with_a_verdict_first() -> None:
    """Their names are kept with the sketch; open families are shown by their hash."""
    sketch = Sketch()
    trap, good = SitePlace(1, ("?<trap>",)), SitePlace(1, ("/a/*",))
    sketch.merge([PageVote(place=good, text=n << 8) for n in range(100)], 7)
    sketch.merge([PageVote(place=trap, text=1) for _ in range(40)], 8)
    report = report_of("a.example", unpack(pack(sketch, 1)))
    assert (report.pages, report.changed) == (140, 8)
    assert [each.verdict for each in report.families] == ["last", "open"]
    first, second = report.families
    assert first.family == "?%3Ctrap%3E"
    assert second.family.startswith("~")
    assert second.summary == "0 of 100 pages had a known text; led to 0 that may be new"


def test_a_report_names_compared_pages() -> None:
    """Pairs are part of the reasons."""
    sketch, place = Sketch(), SitePlace(1, ("?s",))
    votes = [PageVote(place=place, text=5, pairs=(PagePair("?s", 1, value),)) for value in range(3)]
    sketch.merge(votes, 1)
    (family,) = report_of("a.example", sketch).families
    assert family.summary.endswith("2 of 2 had the same text with another value")


@pytest.mark.parametrize(("is_there", "says"), [(True, "was there"), (False, "was not there")])
def test_a_report_names_a_made_up_neighbour(is_there: bool, says: str) -> None:  # noqa: FBT001
    """It is what a path is refused by."""
    sketch, place = Sketch(), SitePlace(1, ("/a/*",))
    votes = [PageVote(place=place, text=5, from_last=True) for _ in range(100)]
    sketch.merge([*votes, NeighbourAnswer("/a/*", is_there)], 1, asks=True)
    (family,) = report_of("a.example", sketch).families
    assert family.neighbour is is_there
    assert family.summary.endswith(f"a made-up neighbour {says}")
