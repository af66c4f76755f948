"""Files of sites about uses of their pages: tdmrep.json and RSL licenses."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawling.robots.terms import MOST_BYTES, MOST_RULES, SiteTerms, rsl_terms, tdm_terms
from support.hostile.markup import cpu_s

ORIGIN = "https://a.example:443"
SITE = "https://a.example"
POLICY = "https://a.example/policy.json"


def tdm(*rules: Any) -> SiteTerms | None:
    """Return what a tdmrep.json with these rules says."""
    return tdm_terms(json.dumps(rules).encode(), ORIGIN)


def rule(location: Any, value: Any = 1, **more: Any) -> dict[str, Any]:
    """Return a rule of a tdmrep.json."""
    return {"location": location, "tdm-reservation": value, **more}


def said(terms: SiteTerms | None, path: str) -> list[tuple[str, str]]:
    """Return names and values of the statements about a page."""
    assert terms
    assert all(each.source == "file" for each in terms.about(SITE + path))
    return [(each.name, each.value) for each in terms.about(SITE + path)]


RULES = (
    rule("/open/", 0),
    rule("/open/shut/", 1),
    rule("/*.jpg$", 1, **{"tdm-policy": "/policy.json"}),
    rule("/caf\xe9/", 1),
    rule("/", 0, **{"tdm-policy": POLICY}),
)


@pytest.mark.parametrize(
    ("path", "value", "policy"),
    [
        ("/open/a", "0", None),
        ("/open/shut/a", "0", None),
        ("/a/b.jpg", "1", POLICY),
        ("/a/b.jpg?size=1", "0", POLICY),
        ("/caf%C3%A9/x", "1", None),
        ("/else", "0", POLICY),
    ],
)
def test_the_first_rule_that_matches_counts(path: str, value: str, policy: str | None) -> None:
    """Applies the first rule that matches, not the longest; resolves policies."""
    policies = [("tdm-policy", policy)] if policy else []
    assert said(tdm(*RULES), path) == [("tdm-reservation", value), *policies]


@pytest.mark.parametrize("value", ["1", True, False, 2, -1, 1.0, None, [1], {"a": 1}])
def test_only_the_numbers_0_and_1_reserve(value: Any) -> None:
    """Passes over a rule with any other value."""
    assert tdm(rule("/", value)) is None
    assert said(tdm(rule("/", value), rule("/", 1)), "/a") == [("tdm-reservation", "1")]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b"[1, null]",
        b"User-agent: *\nDisallow: /",
        b"[" * 100_000,
        b"[" * 100_000 + b"1" * 5000,
        b'[{"location": "/", "tdm-reservation": 1, "more": [[[1]]]}]',
        json.dumps([rule("/")] * (MOST_RULES + 1)).encode(),
        json.dumps([rule("a"), rule(None), rule("/" + "*" * 17), rule("/" + "a" * 3000)]).encode(),
        b'[{"location": "/", "tdm-reservation": ' + b"1" * 5000 + b"}]",
    ],
)
def test_a_file_that_cannot_be_read_says_nothing(text: bytes) -> None:
    """Ignores a file that is unreadable, too deep, or has too many rules."""
    assert tdm_terms(text, ORIGIN) is None


def test_a_file_may_have_as_much_as_is_read() -> None:
    """A thousand rules of four levels, and a byte order mark."""
    rules = [rule(f"/{n}/", 1, more={"a": [1]}) for n in range(MOST_RULES)]
    terms = tdm_terms(b"\xef\xbb\xbf" + json.dumps(rules).encode(), ORIGIN)
    assert said(terms, "/999/a") == [("tdm-reservation", "1")]
    assert terms
    assert not terms.about(f"{SITE}/a")


def rsl(*contents: str) -> bytes:
    """Return a license file with some contents."""
    return f'<rsl xmlns="https://rslstandard.org/rsl">{"".join(contents)}</rsl>'.encode()


def content(url: str, *licenses: str, more: str = "") -> str:
    """Return one content with its licenses."""
    inner = "".join(f"<license>{each}</license>" for each in licenses)
    return f'<content url="{url}"{more}>{inner}</content>'


def permits(words: str) -> str:
    """Return a permission of uses."""
    return f'<permits type="usage">{words}</permits>'


def prohibits(words: str) -> str:
    """Return a prohibition of uses."""
    return f'<prohibits type="usage">{words}</prohibits>'


def uses(*contents: str, path: str = "/a") -> dict[str, str]:
    """Return the answers of a license file to uses of a page."""
    terms = rsl_terms(rsl(*contents), ORIGIN)
    found: dict[str, str] = {}
    for each in terms.about(SITE + path) if terms else ():
        found |= each.uses
    return found


AI = {"train-ai": "n", "ai-input": "n", "ai-index": "n"}


@pytest.mark.parametrize(
    ("words", "answers"),
    [
        ("ai-train", {"train-ai": "n"}),
        ("train-ai", {"train-ai": "n"}),
        ("ai-all", AI),
        ("all", {**AI, "search": "n", "all": "n"}),
        (" AI-Input,search\n", {"ai-input": "n", "search": "n"}),
        ("editing", {"editing": "n"}),
        ("", {}),
    ],
)
def test_a_license_prohibits_uses(words: str, answers: dict[str, str]) -> None:
    """Reads uses that a license prohibits, also by the two words for several uses."""
    assert uses(content("/", prohibits(words))) == answers


def test_what_is_prohibited_is_not_permitted() -> None:
    """Lets a prohibition prevail over a permission by a word for several uses."""
    both = content("/", permits("all") + prohibits("ai-train"))
    assert uses(both) == {"train-ai": "n", **dict.fromkeys(["search", "ai-input", "all"], "y"),
                          "ai-index": "y"}  # fmt: skip
    terms = rsl_terms(rsl(both), ORIGIN)
    assert said(terms, "/a") == [("rsl", "prohibits ai-train; permits all")]


@pytest.mark.parametrize(
    ("extra", "more", "answers"),
    [
        ('<payment type="free"/>', "", {"ai-input": "y"}),
        ("", "", {"ai-input": "y"}),
        ('<payment type="crawl"><amount currency="USD">1</amount></payment>', "", {}),
        ("", ' server="https://license.example/api"', {}),
    ],
)
def test_a_permission_that_has_to_be_acquired_allows_nothing_by_itself(
    extra: str, more: str, answers: dict[str, str]
) -> None:
    """Lists it all the same: a permission against payment, or by a license server."""
    text = content("/", permits("ai-input") + extra, more=more)
    assert uses(text) == answers
    assert said(rsl_terms(rsl(text), ORIGIN), "/a") == [("rsl", "permits ai-input")]


@pytest.mark.parametrize(
    ("url", "is_meant"),
    [
        ("/", True),
        ("*", True),
        ("/a", True),
        ("/b", False),
        ("/*.html$", False),
        ("https://a.example/", True),
        ("HTTPS://A.example:443/a*", True),
        ("https://a.example", True),
        ("http://a.example/", False),
        ("https://b.example/", False),
        ("https://*/", False),
        ("https://[/", False),
        ("a", False),
        ("", False),
    ],
)
def test_content_is_about_paths_of_its_own_origin(url: str, *, is_meant: bool) -> None:
    """Passes over other sites and patterns of hosts."""
    assert bool(uses(content(url, prohibits("search")))) is is_meant


def test_the_content_with_the_longest_path_counts() -> None:
    """Applies the content with the longest path, even without uses; equal paths all count."""
    parts = (
        content("/", prohibits("all")),
        content("/open/", ""),
        content("/two/", prohibits("search"), prohibits("ai-train")),
        content("/two/", permits("ai-input")),
    )
    assert "all" in uses(*parts)
    assert uses(*parts, path="/open/a") == {}
    two = {"search": "n", "train-ai": "n", "ai-input": "y"}
    assert uses(*parts, path="/two/a") == two


REFUSED = prohibits("all")
BOMB = "".join(f'<!ENTITY a{n + 1} "{f"&a{n};" * 10}">' for n in range(9))
ENTITIES = f'<!DOCTYPE rsl [<!ENTITY a0 "all">{BOMB}]>'
HOSTILE: dict[str, Callable[[], bytes]] = {
    "entities": lambda: ENTITIES.encode() + rsl(content("/", prohibits("&a9;"))),
    "entities of an attribute": lambda: ENTITIES.encode() + rsl(content("/&a9;", REFUSED)),
    "a file": lambda: (
        b'<!DOCTYPE rsl [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
        + rsl(content("/", prohibits("&a;")))
    ),
    "a type of UTF-16": lambda: ("\ufeff<!DOCTYPE rsl>" + rsl(content("/", REFUSED)).decode())
    .encode("utf-16-le"),
    "a type of UTF-7": lambda: (
        b'<?xml version="1.0" encoding="UTF-7"?>+ADwAIQ-DOCTYPE rsl+AD4-'
        + rsl(content("/", REFUSED))
    ),
    "elements": lambda: rsl(content("/", REFUSED), "<a/>" * 10_000),
    "depth": lambda: rsl(content("/", REFUSED), "<a>" * 20_000 + "</a>" * 20_000),
    "attributes": lambda: rsl(
        content("/", REFUSED), f"<a {' '.join(f'a{n}=' for n in range(9999))}"
    ),
    "another root": lambda: b"<html><body>" + rsl(content("/", REFUSED)),
    "no namespace": lambda: b"<rsl>" + content("/", REFUSED).encode() + b"</rsl>",
    "no end": lambda: rsl(content("/", REFUSED))[:-6],
    "nothing": lambda: b"",
    "stars": lambda: rsl(content("/" + "*a" * 1000, REFUSED) * 100),
}  # fmt: skip


@pytest.mark.parametrize("made", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_license_says_nothing_and_is_not_expensive(made: Callable[[], bytes]) -> None:
    """Refuses document types and whatever is too large; fetches nothing; takes milliseconds."""
    text = made()[:MOST_BYTES]
    assert rsl_terms(text, ORIGIN) is None
    assert cpu_s(lambda: rsl_terms(text, ORIGIN)) < 0.1


@given(
    st.one_of(
        st.binary(max_size=300),
        st.text('<>rslcontenturl="/ &;![]x', max_size=300).map(rsl),
        st.recursive(
            st.none() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=4)
                | st.dictionaries(
                    st.sampled_from(["location", "tdm-reservation", "tdm-policy"]),
                    inner,
                    max_size=3,
                )
            ),
            max_leaves=20,
        ).map(lambda value: json.dumps(value).encode()),
    )
)
def test_no_file_raises(text: bytes) -> None:
    """Returns statements that a result can carry, or none."""
    for read in (tdm_terms, rsl_terms):
        terms = read(text, ORIGIN)
        for each in terms.about(f"{SITE}/a/b?c") if terms else ():
            assert each.value
            assert set(each.uses.values()) <= {"y", "n"}


def test_many_rules_are_compared_soon() -> None:
    """A page costs some milliseconds at the worst file, its path as long as one may be."""
    hard = "/" + "*".join(["a"] * 15) + "*b"
    terms = tdm(*(rule(f"{hard}{n}") for n in range(MOST_RULES)))
    assert terms
    assert cpu_s(lambda: terms.about(f"{SITE}/{'a' * 2000}")) < 0.05
