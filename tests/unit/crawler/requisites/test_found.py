"""Requisites are found as browsers find them, whatever the markup is."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy.http import HtmlResponse, TextResponse

from crawling.requisites.css import MOST_CHARACTERS, css_references
from crawling.requisites.found import (
    CANDIDATE,
    IMAGE,
    MEDIA,
    MOST_FOUND,
    OF_STYLES,
    SCRIPT,
    STYLESHEET,
    candidates_in,
    requisites_of,
    requisites_of_styles,
)
from crawling.requisites.known import KnownRequisites
from crawlstream.model.crawl import CrawlKey

URL = "http://site.example/a/page"


def found(markup: str) -> dict[str, int]:
    """Return rank by path of the requisites of a page."""
    response = HtmlResponse(URL, body=markup.encode(), encoding="utf-8")
    return {
        one.url.removeprefix("http://site.example"): one.rank for one in requisites_of(response)
    }


def test_elements_name_their_requisites() -> None:
    """Each URL of an attribute is found once, relative to the base, with its lowest rank."""
    markup = """<base href=/b/><link rel="Stylesheet alternate" href=s.css>
        <link rel=icon href=i.ico><link rel=next href=no><script src=s.js></script>
        <body background=bg.png><img src=1.png srcset="2.png 2x, 1.png">
        <picture><source srcset=3.png></picture><video poster=p.png src=v.mp4><source src=v.mp4>
        </video><p style="background:url(4.png)"><style>@import 'more.css';
        </style><svg><image href=5.svg></svg><input type=image src=6.png><img src="#x"><img src="">
        <img src="data:image/png,x"><img src="javascript:x"><img src="/a/page#y">
        <a href=no><iframe src=no></iframe>"""
    assert found(markup) == {
        "/b/s.css": STYLESHEET,
        "/b/i.ico": IMAGE,
        "/b/s.js": SCRIPT,
        "/b/1.png": IMAGE,
        "/b/2.png": CANDIDATE,
        "/b/3.png": CANDIDATE,
        "/b/p.png": IMAGE,
        "/b/v.mp4": MEDIA,
        "/b/bg.png": IMAGE,
        "/b/4.png": OF_STYLES,
        "/b/more.css": STYLESHEET,
        "/b/5.svg": IMAGE,
        "/b/6.png": IMAGE,
    }


def test_a_page_names_a_bounded_number_of_them() -> None:
    """The bound holds for pages with many different references, and with many equal ones."""
    many = "".join(f"<img src={number}>" for number in range(2 * MOST_FOUND))
    assert len(found(many)) == MOST_FOUND
    assert len(found("<img src=1>" * 10_000 + "<img src=2>")) == 1


@pytest.mark.parametrize(
    ("text", "references"),
    [
        ("a{b:url(1.png)} c{d:URL( '2.png' )}", ["1.png", "2.png"]),
        ("@import '1.css'; @import url(2.css) print;", ["1.css!", "2.css!"]),
        ("/* url(no) */a{b:url(1)}/* url(no", ["1"]),
        ("a{content:'url(no)';b:url(1)} c{content:\"@import 'no'\"}", ["1"]),
        ("@namespace svg url(no); a{b:url(1)}", ["1"]),
        (r"a{b:url(\31 .png)} c{d:url('a\'b')}", ["1.png", "a'b"]),
        ("a{b:url()} c{d:url('')} @import '';", []),
        (r"a{b:url(\110000 x)}", ["\ufffdx"]),
    ],
)
def test_styles_are_read_by_their_tokens(text: str, references: list[str]) -> None:
    """Comments, other strings and namespaces name nothing; ``!`` marks another stylesheet."""
    assert [ref + "!" * is_import for ref, is_import in css_references(text)] == references


def test_a_stylesheet_is_read_in_its_charset() -> None:
    """References are relative to the stylesheet, not to the page."""
    styles = TextResponse(
        "http://cdn.example/s/x.css", body="a{b:url(\xe9)}".encode("latin-1"), encoding="latin-1"
    )
    assert [one.url for one in requisites_of_styles(styles)] == ["http://cdn.example/s/%C3%A9"]


@pytest.mark.parametrize("piece", ['"', "'", '"\\"', "/*", "url(", "url('", "@import ", "\\", "("])
def test_hostile_styles_are_read_once(piece: str) -> None:
    """Comments, strings and URLs that do not end take no more time than other text."""
    text = piece * (MOST_CHARACTERS // len(piece))
    began = time.thread_time()
    list(css_references(text))
    list(candidates_in(text))
    assert time.thread_time() - began < 2


@pytest.mark.parametrize(
    ("srcset", "urls"),
    [
        ("1.png, 2.png 2x", ["1.png", "2.png"]),
        (" ,,1.png 100w,2.png", ["1.png", "2.png"]),
        ("a,b.png 1x, c.png", ["a,b.png", "c.png"]),
        ("1.png,", ["1.png"]),
        ("1.png (a,b) 2x, 2.png", ["1.png", "2.png"]),
        (",", []),
        ("", []),
    ],
)
def test_candidates_are_split_as_the_standard_splits_them(srcset: str, urls: list[str]) -> None:
    """A comma within a URL is part of it."""
    assert list(candidates_in(srcset)) == urls


@given(st.text(alphabet="\"'\\()/*@ ,\nurl#aimport{};", max_size=60))
def test_any_text_is_read(text: str) -> None:
    """Text without meaning raises nothing."""
    list(css_references(text))
    list(candidates_in(text))
    found(f'<style>{text}</style><img srcset="{text}" style="{text}" src="{text}">')


def test_a_process_remembers_a_bounded_number_of_requisites() -> None:
    """The oldest requisites of the run that was used the longest time ago are forgotten."""
    known = KnownRequisites(most=3)
    old, new = (CrawlKey("link", "app", "old"), 1), (CrawlKey("link", "app", "new"), 1)
    assert [known.add(old, "1"), known.add(old, "2"), known.add(new, "1")] == [True] * 3
    assert not known.add(new, "1")
    assert known.add(new, "2")
    assert known.add(old, "1")
    known.remove(new, "2")
    assert known.add(new, "2")
