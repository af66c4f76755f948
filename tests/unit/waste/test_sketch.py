"""The sketch of a site: what votes add up to, and how far a site can spoil its own."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlstream_frontier.waste.families import MOST_FAMILIES, Family, label_of
from crawlstream_frontier.waste.judging import wants_neighbour
from crawlstream_frontier.waste.packing import pack, unpack
from crawlstream_frontier.waste.sketch import Sketch
from crawlstream_frontier.waste.texts import LARGEST_COUNT, FrequentTexts
from crawlstream_frontier.waste.votes import (
    CrawlBegan,
    NeighbourAnswer,
    PagePair,
    PageVote,
    SitePlace,
)

NOW = 1_700_000_000
MAIN = 7

votes = st.builds(
    PageVote,
    place=st.sampled_from([SitePlace(MAIN, (name,)) for name in ("/a/*", "/b/*", "?c", "?d")]),
    parent=st.sampled_from([None, SitePlace(MAIN, ("/a/*",)), SitePlace(MAIN, ("?d",))]),
    is_there=st.booleans(),
    text=st.none() | st.integers(0, 30) | st.integers(0, 0xFFFFFFFF),
    from_last=st.booleans(),
)


def _pages(place: SitePlace, texts: list[int | None], **said: object) -> list[PageVote]:
    return [PageVote(place=place, text=text, **said) for text in texts]  # type: ignore[arg-type]


@given(st.lists(votes, max_size=15), st.lists(votes, max_size=15))
def test_order_of_two_workers_does_not_count(one: list[PageVote], other: list[PageVote]) -> None:
    """Two batches give the same totals in either order, before there is a verdict.

    Of two pages with one text, the first is new and speaks for its parent: credits may differ.
    """
    sums = []
    for batches in ((one, other), (other, one)):
        sketch = Sketch()
        for batch in batches:
            sketch.merge(batch, NOW)
        if any(not family.is_plain for family in sketch.families):
            return
        sums.append(
            (
                sketch.pages,
                {each.key: each.counts.pages for each in sketch.families if each.counts.pages},
                sketch.texts.frequent.counts.keys()
                if len(sketch.texts.frequent.counts) < 16
                else (),
            )
        )
    assert sums[0] == sums[1]


@given(st.lists(st.integers(0, 40), max_size=400))
def test_frequent_texts_are_frequent(texts: list[int]) -> None:
    """The true number of pages of a text is between count - error and count."""
    frequent, true = FrequentTexts(), Counter[int]()
    for text in texts:
        true[text] += 1
        frequent.add(text)
    for text, (count, error) in frequent.counts.items():
        assert count - error <= true[text] <= count


def test_a_site_is_asked_about_its_most_frequent_texts() -> None:
    """The first one has 8 pages, the next one 16, and so on; each is tried once, 15 in all."""
    frequent, tries = FrequentTexts(), list[int]()
    for number in range(16):
        for pages in range(1, 200):
            frequent.add(number)
            if frequent.untried:
                assert frequent.untried == {number}
                frequent.answer(number, is_there=number == 0)
                tries.append(pages)
    assert tries == [8 * (number + 1) for number in range(15)]
    assert frequent.soft_errors == {0}
    for text in range(100, 200):
        frequent.add(text)
    assert frequent.soft_errors == {0}
    assert frequent.tries == 15


def test_counts_of_frequent_texts_are_bounded() -> None:
    """A text of very many pages keeps a count that the format can hold."""
    frequent = FrequentTexts()
    for _ in range(2 * LARGEST_COUNT):
        assert frequent.add(1) or frequent.counts[1][0] < 4
    assert frequent.counts[1][0] <= LARGEST_COUNT


def test_equal_texts_put_a_family_last_and_new_ones_take_it_back() -> None:
    """A verdict that three new pages contradict is taken back."""
    sketch, place = Sketch(), SitePlace(MAIN, ("/a/*",))
    changes = sketch.merge(_pages(place, [1] * 60), NOW).changes
    assert [(change.family, change.before, change.after) for change in changes] == [
        ("/a/*", "open", "last")
    ]
    assert changes[0].counts["pages"] >= 16
    opened = sketch.merge(_pages(place, list(range(1000, 260_000, 256)), from_last=True), NOW + 9)
    assert [(change.before, change.after) for change in opened.changes] == [("last", "open")]
    assert sketch.changed == NOW + 9


def test_pages_that_did_not_wait_do_not_refuse_a_family() -> None:
    """Refuses no family in a crawl without last bands: `last` is the worst verdict."""
    sketch, place = Sketch(), SitePlace(MAIN, ("?sort",))
    sketch.merge(_pages(place, [1] * 1000), NOW)
    assert sketch.families.of("?sort").verdict == "last"
    sketch.merge(_pages(place, [1] * 100, from_last=True), NOW)
    assert sketch.families.of("?sort").verdict == "refused"


def test_a_path_is_never_refused_if_its_site_is_not_asked() -> None:
    """A large family of pages with equal texts looks the same as an endless one."""
    sketch, place = Sketch(), SitePlace(MAIN, ("/wiki/*",))
    sketch.merge(_pages(place, [1] * 5000, from_last=True), NOW)
    assert sketch.families.of("/wiki/*").verdict == "last"


def _asked(answers: str) -> Family:
    """Return a family of paths with equal texts; + and - are what its site says to neighbours."""
    sketch, place = Sketch(), SitePlace(MAIN, ("/wiki/*",))
    for each in answers:
        sketch.merge(_pages(place, [1] * 100, from_last=True), NOW, asks=True)
        assert wants_neighbour(sketch.families.of("/wiki/*"))
        sketch.merge([NeighbourAnswer("/wiki/*", is_there=each == "+")], NOW, asks=True)
    sketch.merge(_pages(place, [1] * 100, from_last=True), NOW, asks=True)
    return unpack(pack(sketch, 1)).families.of("/wiki/*")


@pytest.mark.parametrize(
    ("answers", "verdict", "wants_more"),
    [
        ("+", "refused", False),
        ("-+", "refused", False),
        ("--", "last", True),
        ("---", "last", False),
    ],
)
def test_a_path_is_refused_by_a_made_up_neighbour(
    answers: str, verdict: str, *, wants_more: bool
) -> None:
    """Refuses a path by a made-up neighbour; without one, counts again, three times at most."""
    family = _asked(answers)
    assert (family.verdict, wants_neighbour(family)) == (verdict, wants_more)


def test_an_answer_that_comes_too_late_changes_nothing() -> None:
    """Two crawlers may ask, or the family has brought something new meanwhile."""
    sketch, place = Sketch(), SitePlace(MAIN, ("/wiki/*",))
    sketch.merge(_pages(place, [1] * 100, from_last=True), NOW, asks=True)
    sketch.merge([NeighbourAnswer("/wiki/*", is_there=False)] * 2, NOW, asks=True)
    sketch.merge([NeighbourAnswer("/other/*", is_there=True)], NOW, asks=True)
    assert sketch.families.of("/wiki/*").missing == 1
    assert sketch.families.known("/other/*") is None


def test_hosts_are_not_asked_for() -> None:
    """A made-up host would be another server, so more pages must show what it brings."""
    sketch, place = Sketch(), SitePlace(MAIN + 1, ("/a/*",))
    sketch.merge([PageVote(place=SitePlace(MAIN, ("/a/*",)))], NOW)
    sketch.merge(_pages(place, [1] * 100, from_last=True), NOW, asks=True)
    assert sketch.families.of("host").verdict == "refused"


def test_another_run_has_refused_families_put_last() -> None:
    """A run that is known, as after a restart of a crawler, changes nothing."""
    sketch, place = Sketch(), SitePlace(MAIN, ("?sort",))
    sketch.merge([CrawlBegan(1), *_pages(place, [1] * 200, from_last=True)], NOW)
    assert sketch.merge([CrawlBegan(1)], NOW).changes == []
    assert sketch.merge([CrawlBegan(2)], NOW).changes[0].after == "last"
    sketch.merge(_pages(place, [1] * 47, from_last=True), NOW)
    assert sketch.families.of("?sort").verdict == "last"
    sketch.merge(_pages(place, [1], from_last=True), NOW)
    assert sketch.families.of("?sort").verdict == "refused"


def test_a_family_that_is_released_again_and_again_stays_last_for_a_day() -> None:
    """Its site may answer in turns to have its pages fetched."""
    sketch, place = Sketch(), SitePlace(MAIN, ("/a/*",))
    now, states = NOW, []
    for turn in range(7):
        now += 86_400 if turn == 6 else 1
        sketch.merge(_pages(place, [1] * 600), now)
        assert sketch.families.of("/a/*").verdict == "last"
        new = range(40 * turn << 14, 40 * (turn + 1) << 14, 1 << 14)
        sketch.merge(_pages(place, list(new)), now)
        states.append(sketch.families.of("/a/*").verdict)
    assert states == ["open"] * 4 + ["last"] * 2 + ["open"]


def test_pages_without_text_are_never_held_against_a_site() -> None:
    """A page whose text is made by scripts may be new."""
    sketch = Sketch()
    assert not sketch.merge(_pages(SitePlace(MAIN, ("/a/*",)), [None] * 500), NOW).changes


def test_a_page_that_has_brought_a_text_is_new_each_time() -> None:
    """Another crawl of the site fetches the same pages; only other pages with its text are not."""
    sketch, place = Sketch(), SitePlace(MAIN, ("/a/*",))
    for _ in range(3):
        sketch.merge([PageVote(place=place, text=n << 8, address=n) for n in range(40)], NOW)
    assert sketch.families.of("/a/*").counts.fresh == 3 * 40
    sketch.merge([PageVote(place=place, text=n << 8, address=n + 1) for n in range(40)], NOW)
    counts = sketch.families.of("/a/*").counts
    assert (counts.fresh, counts.dup) == (3 * 40, 40)


def test_a_list_is_kept_by_the_pages_that_it_leads_to() -> None:
    """A family with equal texts stays open while pages that it links to are new."""
    sketch, lists, article = Sketch(), SitePlace(MAIN, ("?page",)), SitePlace(MAIN, ("/a/*",))
    for n in range(200):
        sketch.merge(_pages(lists, [1]), NOW)
        sketch.merge(_pages(article, [n << 8], parent=lists), NOW)
    assert sketch.families.of("?page").verdict == "open"


@pytest.mark.parametrize(("name", "needed"), [("?sid", 16), ("?page", 64)])
def test_a_parameter_that_changes_no_text_is_dropped(name: str, needed: int) -> None:
    """Enough equal pairs drop a parameter, different texts keep it again."""
    sketch, place = Sketch(), SitePlace(MAIN, (name,))
    for n in range(needed):
        for value in range(2):
            assert sketch.families.of(name).verdict == "open"
            equal = (PagePair(name, n, value),)
            sketch.merge([PageVote(place=place, text=n << 8, pairs=equal)], NOW)
    assert sketch.families.of(name).verdict == "dropped"
    for n in range(needed):
        for value in range(2):
            other = (PagePair(name, 1000 + 64 * n, value),)
            sketch.merge([PageVote(place=place, text=(n + value) << 8, pairs=other)], NOW)
    assert sketch.families.of(name).verdict != "dropped"


def test_hosts_are_compared_once_there_are_two() -> None:
    """A site with one host keeps no sample for host names."""
    sketch = Sketch()
    vote = PageVote(place=SitePlace(MAIN, ("/a/*",)), text=1, pairs=(PagePair("host", 4, 0),))
    sketch.merge([vote], NOW)
    assert not sketch.pairs.pages
    other = PageVote(place=SitePlace(MAIN + 1, ("/a/*",)), text=1, pairs=(PagePair("host", 4, 1),))
    sketch.merge([other, vote], NOW)
    assert sketch.families.of("host").eq == 1


def test_a_site_fills_its_own_sketch_only_to_the_bound() -> None:
    """A hundred thousand parameters leave 20 families, and those with a verdict stay."""
    sketch = Sketch()
    sketch.merge(_pages(SitePlace(MAIN, ("?trap",)), [1] * 40), NOW)
    for n in range(20_000):
        sketch.merge([PageVote(place=SitePlace(MAIN, tuple(f"?{n}x{k}" for k in range(5))))], NOW)
    assert len(sketch.families) == MOST_FAMILIES
    assert sketch.families.of("?trap").verdict == "last"
    assert len(pack(sketch, 1)) <= 2040


def test_a_site_without_verdicts_becomes_calm() -> None:
    """Looks at fewer pages of a site after 512 without a verdict, until there is one."""
    sketch, place = Sketch(), SitePlace(MAIN, ("/a/*",))
    sketch.merge(_pages(place, [n << 8 for n in range(511)]), NOW)
    calm = [sketch.is_calm]
    sketch.merge(_pages(place, [511 << 8]), NOW)
    calm.append(sketch.is_calm)
    sketch.merge(_pages(SitePlace(MAIN, ("?trap",)), [1] * 40), NOW)
    assert [*calm, sketch.is_calm] == [False, True, False]


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("?sort", "?sort"),
        ("/a/#/*", "/a/#/*"),
        ("?<script>", "?%3Cscript%3E"),
        ("?\x1b[31m\n", "?%1B%5B31m%0A"),
        ("?é", "?%C3%A9"),
        ("?%41", "?%2541"),
        ("?\udc80", "?%ED%B2%80"),
        ("?" + "x" * 100, "?" + "x" * 29),
        ("?" + "x" * 28 + "é", "?" + "x" * 28),
    ],
)
def test_names_are_safe_to_show(name: str, label: str) -> None:
    """Names that sites choose are escaped and cut."""
    assert label_of(name) == label
