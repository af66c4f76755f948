"""Records of sites: verdicts by pairs, and their packed form."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crawling.autorender.families import family_of
from crawling.autorender.record import PairVote, RenderRecord, RenderVerdict, pack, unpack

A, B, C = 1, 2, 3


def _record(*votes: PairVote) -> RenderRecord:
    record = RenderRecord()
    record.add(votes)
    return record


def _votes(family: int, letters: str) -> list[PairVote]:
    """``n``: the browser was needed; ``p``: it was not."""
    return [PairVote(family, letter == "n") for letter in letters]


def test_eight_pairs_without_a_need_are_plain_and_two_needs_are_a_browser() -> None:
    """An eighth of needs is enough; less is plain after 32 pairs."""
    assert _record(*_votes(A, "p" * 7)).verdict(A) is RenderVerdict.UNSURE
    assert _record(*_votes(A, "p" * 8)).verdict(A) is RenderVerdict.PLAIN
    assert _record(*_votes(A, "ppppn")).verdict(A) is RenderVerdict.UNSURE
    assert _record(*_votes(A, "ppppnpn")).verdict(A) is RenderVerdict.BROWSER
    assert _record(*_votes(A, "n" + "p" * 31)).verdict(A) is RenderVerdict.UNSURE
    assert _record(*_votes(A, "n" + "p" * 32)).verdict(A) is RenderVerdict.PLAIN


def test_three_contradictions_take_a_verdict_back() -> None:
    """A site that changes is learned again, in both directions."""
    plain, browser = "p" * 8, "nn"
    assert _record(*_votes(A, plain + "nn")).verdict(A) is RenderVerdict.PLAIN
    assert _record(*_votes(A, plain + "nnn")).verdict(A) is RenderVerdict.BROWSER
    assert _record(*_votes(A, browser + "pp")).verdict(A) is RenderVerdict.BROWSER
    assert _record(*_votes(A, browser + "ppp")).verdict(A) is RenderVerdict.UNSURE
    assert _record(*_votes(A, browser + "n" + "ppp")).verdict(A) is RenderVerdict.BROWSER
    assert _record(*_votes(A, browser + "n" + "p" * 100)).verdict(A) is RenderVerdict.PLAIN


def test_a_family_without_pairs_has_the_verdict_of_its_site() -> None:
    """Only a browser that was needed everywhere speaks for new families."""
    assert _record().verdict(A) is RenderVerdict.UNSURE
    assert _record(*_votes(B, "n")).verdict(A) is RenderVerdict.BROWSER
    assert _record(*_votes(B, "n"), *_votes(C, "p")).verdict(A) is RenderVerdict.UNSURE
    assert _record(*_votes(B, "p" * 8)).verdict(A) is RenderVerdict.UNSURE


def test_trials_become_rare_and_never_end() -> None:
    """Chooses 1 of 4 pages of an open family, of 16 on a plain site, of 64 of a plain family."""
    urls = [f"https://a.example/x/{n}" for n in range(4_096)]
    family = family_of(urls[0])
    plain = _votes(family, "p" * 8)
    for record, one_in in (
        (_record(), 4),
        (_record(*_votes(B, "p" * 8)), 16),
        (_record(*_votes(B, "p" * 8), *_votes(C, "n")), 4),
        (_record(*plain), 64),
    ):
        tried = sum(record.is_tried(family, url) for url in urls)
        assert 0.7 <= tried * one_in / len(urls) <= 1.4


def test_families_are_few() -> None:
    """By host and form of the path; pages below the root are one; parameters do not matter."""
    assert family_of("https://a.example/about") == family_of("https://www.a.example/jobs?x=1")
    assert family_of("https://a.example/shop/1") == family_of("https://a.example/shop/22")
    different = ("/", "/about", "/shop/1", "/shop/a", "/blog/1", "/shop/1/2")
    assert len({family_of(f"https://a.example{path}") for path in different}) == len(different)
    assert family_of("https://a.example/") != family_of("https://b.a.example/")


@given(st.lists(st.tuples(st.integers(0, 2**32 - 1), st.booleans()), max_size=300))
def test_a_packed_record_is_small_and_the_same(votes: list[tuple[int, bool]]) -> None:
    """It is bounded whatever pages a site has."""
    record = _record(*(PairVote(*vote) for vote in votes))
    packed = pack(record, 7)
    assert len(packed) <= 204
    assert packed[20:24] == b"\x07\0\0\0"
    assert unpack(packed) == record
    assert pack(unpack(packed), 7) == packed


@given(st.binary(max_size=300))
def test_bytes_that_are_no_record_are_an_empty_one(raw: bytes) -> None:
    """Or a record that can be packed again."""
    assert len(pack(unpack(raw), 1)) <= 204
