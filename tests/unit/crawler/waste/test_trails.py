"""Trails of families, and when a neighbour of one may be asked for."""

from __future__ import annotations

from crawling.waste.trails import Trail, Trails, text_of
from crawlstream_frontier.waste.families import (
    Family,
    FamilyState,
    FamilyTable,
    YieldCounts,
    family_hash,
)
from crawlstream_frontier.waste.sketch import Sketch
from crawlstream_frontier.waste.texts import FrequentTexts, SiteTexts

DAYS = "/events/#"


def test_pauses_without_an_answer_double_up_to_an_hour() -> None:
    """A site that refuses each neighbour gets fewer and fewer of these requests."""
    trail = Trail()
    pauses = [trail.put_off(100.0, 15.0, 3600.0) for _ in range(9)]
    assert pauses == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]


def test_a_family_that_is_put_off_is_not_wanted_until_then() -> None:
    """Its trail goes on, with the pages that come meanwhile."""
    sketch, trails = Sketch(), Trails()
    counts = YieldCounts(pages=60, heavy=60)
    sketch.families = FamilyTable(
        [Family(key=family_hash(DAYS), counts=counts, state=FamilyState.LAST)]
    )
    trails.see(sketch, ())
    trails.add([DAYS], "http://a.example/events/1", 7)
    ((name, trail),) = trails.wanted(100.0)
    trail.put_off(100.0, 15.0, 3600.0)
    trails.add([DAYS], "http://a.example/events/2", 7)
    assert list(trails.wanted(129.0)) == []
    assert (name, trail.latest) == (DAYS, "http://a.example/events/2")
    assert [found for _, found in trails.wanted(130.0)] == [trail]


def test_a_neighbour_of_a_frequent_text_is_made_up_of_its_latest_page() -> None:
    """Its trail goes when the site has answered."""
    sketch, trails = Sketch(), Trails()
    sketch.texts = SiteTexts(FrequentTexts({7: (9, 1), 8: (8, 1)}))
    trails.see(sketch, ())
    for number in (1, 2):
        trails.add(["/a/*"], f"http://a.example/a/{number}", 7)
        trails.add(["/a/*"], f"http://a.example/a/{number}", 8)
    ((name, trail),) = trails.wanted(100.0)
    assert (text_of(name), trail.latest, set(trail.texts)) == (7, "http://a.example/a/2", {7})
    sketch.texts.frequent.answer(7, is_there=True)
    trails.see(sketch, ())
    assert (list(trails.wanted(100.0)), trails.by_name) == ([], {})
