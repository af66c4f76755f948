"""Patterns: clients' regular expressions give Python's answers and cannot stop the crawler."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scrapy.http import HtmlResponse

from crawling.links.extract import links_of
from crawling.links.patterns import PatternBudget, Patterns
from crawlstream.model.crawl import Profile

EVIL = [r"(a+)+$", r"^(?!x)(a|a)*$", r"(?=(a+)+$)b", r"(.*)(.*)\1(.*)\2x$", r"(\w*)*@$"]

_ATOMS = st.sampled_from(
    [
        *("a", "b", "/", ".", r"\.", r"\d", r"\w", r"\W", r"\s", r"\b", r"\B", "^", "$", "[a-c]"),
        *("[^/]", "[]a]", r"[\w-]", "(a|b)", "(?:ab|)", "(?i:A)", "(?P<n>b)", "{", "}", "]", "-"),
        *(r"\A", r"\Z", "(?=a)", "(?!b)", "(?<=/)", r"(a)\1", "[[:alpha:]]", "a{,2}", "é"),
        *("[a&&b]", r"\-", r"\/", r"\071", "%", "=", "?", r"[\]a]", "(?s:.)", "(?m:^a$)", "a|"),
        *("|", r"\x61"),
    ]
)
_REPEATS = st.sampled_from(["", "", "", "*", "+", "?", "*?", "+?", "{2}", "{1,2}", "{1,}", "++"])
_EXPRESSIONS = st.lists(st.builds("{}{}".format, _ATOMS, _REPEATS), min_size=1, max_size=5).map(
    "".join
)
_URLS = st.text(st.sampled_from("abAB/.-_%09={,}:é"), min_size=1, max_size=12)


def _matches(expression: str, url: str) -> bool | None:
    try:
        return re.search(expression, url) is not None
    except re.error:
        return None


@pytest.mark.filterwarnings("ignore:Possible:FutureWarning")
@settings(max_examples=400)
@given(expressions=st.lists(_EXPRESSIONS, min_size=1, max_size=3), url=_URLS)
@example(expressions=["a{,2}b"], url="b")
@example(expressions=["[[:alpha:]]"], url="x]")
def test_an_expression_finds_what_python_finds(expressions: list[str], url: str) -> None:
    """Whichever engine it runs on."""
    expected = [_matches(each, url) for each in expressions]
    if None in expected:
        with pytest.raises(re.error):
            Patterns(expressions)
    else:
        assert Patterns(expressions).found_in(url) is any(expected)


@pytest.mark.parametrize("expression", EVIL)
@pytest.mark.parametrize("field", ["allow_regex", "deny_regex"])
def test_no_expression_holds_the_crawler_up(expression: str, field: str) -> None:
    """It runs in linear time, or out of time: then links are left out, and counted."""
    body = "".join(f"<a href=/{'a' * 400}!{n}></a>" for n in range(50))
    response = HtmlResponse("http://a.example/", body=body.encode(), encoding="utf-8")
    profile = Profile(**{field: (expression, "x")})  # type: ignore[arg-type]
    began = time.process_time()
    for _ in range(20):
        links, refused = links_of(response, profile)
        assert len(links) + sum(refused.values()) == 50
    assert time.process_time() - began < 10


def test_an_expression_has_three_chances() -> None:
    """An expression that ran out of time on three pages costs nothing on the next."""
    body = f"<a href=/first></a><a href=/{'a' * 60}!></a><a href=/last></a>"
    response = HtmlResponse("http://a.example/", body=body.encode(), encoding="utf-8")
    profile = Profile(deny_regex=(r"(?!x)(a|a)*$|never",))
    for _ in range(3):
        _links, refused = links_of(response, profile)
        assert refused == {"regex": 1, "regex_timeout": 2}
    links, refused = links_of(response, profile)
    assert (links, refused) == ([], {"regex_timeout": 3})


def test_an_expression_that_ends_in_time_is_not_disturbed() -> None:
    """The clock is stopped with the page."""
    patience = PatternBudget()
    with patience.limited():
        pass
    began = time.process_time()
    while time.process_time() - began < 0.2:
        sum(range(1000))
