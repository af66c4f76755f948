"""Families, texts and canonical URLs of the examples in the text files of this folder."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from crawling.quality.canonical import canonical_of
from crawling.quality.family import families_of
from crawling.quality.page_text import MOST_CHARACTERS, signature_of

HERE = Path(__file__).parent


def _lines(name: str) -> list[str]:
    return (HERE / name).read_text().split("\n", 1)[1].splitlines()


def _signature(page: str) -> int | None:
    url, *nodes = page.split(" | ")
    return signature_of(nodes, url)


@pytest.mark.parametrize("line", _lines("families.txt"))
def test_families_of_examples(line: str) -> None:
    """Each URL has the families that its line names, in their order."""
    url, main, *families = line.split(" ")
    assert list(families_of(url, "" if main == "-" else main)) == families


@pytest.mark.parametrize("pair", list(zip(*[iter(_lines("texts.txt"))] * 3, strict=True)))
def test_texts_of_examples(pair: tuple[str, str, str]) -> None:
    """Two pages are equal or different."""
    one, other, verdict = _signature(pair[0]), _signature(pair[1]), pair[2]
    assert (one == other) == (verdict == "=")


@pytest.mark.parametrize("example", "\n".join(_lines("canonicals.txt")).split("\n\n"))
def test_canonicals_of_examples(example: str) -> None:
    """Headers come before elements, and the first that names a canonical URL is decisive."""
    url, *lines, found = example.splitlines()
    says = {kind: [line[2:] for line in lines if line[:1] == kind] for kind in "hbe"}
    headers = [header.encode() for header in says["h"]]
    base = says["b"][0] if says["b"] else url
    assert canonical_of(url, headers, base, says["e"]) == (None if found == "= -" else found[2:])


def test_a_text_is_a_set() -> None:
    """The order of nodes does not count, nor how often each of them is there."""
    nodes = ["one", "two", "three", "four"]
    orders = [[*order, "one"] for order in permutations(nodes)]
    assert len({signature_of(order, "https://a.example/") for order in orders}) == 1


def test_a_text_has_an_end() -> None:
    """Nodes beyond the first 65,536 characters do not count; repeated ones take no room."""
    begin = ["again"] * MOST_CHARACTERS + ["x" * (MOST_CHARACTERS - 6)]
    one, other = (signature_of([*begin, end], "https://a.example/") for end in ("one", "other"))
    assert one == other
    hidden = ["x" * 9, *begin, "one"]
    assert signature_of(hidden, "https://a.example/", {"x" * 9}) == one


def test_a_page_without_text_has_no_signature() -> None:
    """White space alone does not count as text."""
    for nodes in ([], [""], ["\n ", "\t"]):
        assert signature_of(nodes, "https://a.example/") is None


def test_parameters_of_a_hostile_url_are_bounded() -> None:
    """A URL with a thousand parameters has sixteen families with short names."""
    query = "&".join(f"{'x' * 100}{number}" for number in range(1000))
    assert families_of(f"https://a.example/?{query}", "a.example") == (f"?{'x' * 64}",)
    query = "&".join(f"p{number}=" for number in range(1000))
    assert len(families_of(f"https://a.example/?{query}", "a.example")) == 16


def test_what_a_signature_is() -> None:
    """Its bits never change: results of different years are compared."""
    found = signature_of(["Größe 10", " 17 \n items", "17 items"], "https://a.example/list/17")
    assert f"{found:016x}" == "35d718994d088a9f"
