"""Directives of a page: headers and heads for all crawlers, and for this one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy.http import HtmlResponse, Response

from crawling.page.directives import NO_DIRECTIVES, directives_of
from crawling.robots.lines import product_token
from support.hostile.markup import cpu_s

URL = "http://a.example/"
AT = "unavailable_after=1277506800"


def _header(*lines: str) -> list[str]:
    headers: dict[str, Any] = {"X-Robots-Tag": list(lines)}
    return list(directives_of(Response(URL, headers=headers), "ExampleBot").texts)


def _html(markup: str | bytes, **more: Any) -> list[str]:
    body = markup if isinstance(markup, bytes) else markup.encode()
    return list(directives_of(HtmlResponse(URL, body=body, **more), "ExampleBot").texts)


LINES: dict[str, tuple[list[str], list[str]]] = {
    "one": (["noindex"], ["noindex"]),
    "their order": (["nofollow, NOINDEX"], ["noindex", "nofollow"]),
    "several lines": (["nofollow", "noindex"], ["noindex", "nofollow"]),
    "none": (["none"], ["noindex", "nofollow"]),
    "nocache": (["nocache"], ["noarchive"]),
    "nothing is said": (["all", "index, follow", ""], []),
    "the stricter holds": (["follow, nofollow", "index"], ["nofollow"]),
    "semicolons and spaces": (["noindex; nofollow", "noarchive nosnippet"], [
        "noindex", "nofollow", "noarchive", "nosnippet",
    ]),
    "words of others": (["noai, noimageai, noodp"], ["noai", "noimageai", "noodp"]),
    "for us": (["examplebot: noindex"], ["noindex"]),
    "for others": (["otherbot: noindex, nofollow"], []),
    "for all by name": (["*: noindex"], ["noindex"]),
    "for others and us": (["otherbot: noindex, examplebot: nofollow"], ["nofollow"]),
    "for us, then others": (["ExampleBot: nofollow, noarchive, otherbot: noindex"], [
        "nofollow", "noarchive",
    ]),
    "an agent holds for its line": (["otherbot: noindex", "nofollow"], ["nofollow"]),
    "a directive is no agent": (["noindex: yes, nofollow"], ["noindex", "nofollow"]),
    "a date": (["unavailable_after: 25 Jun 2010 15:00:00 PST"], [AT]),
    "a date with a comma": (["unavailable_after: Friday, 25 Jun 2010 15:00:00 PST, noindex"], [
        "noindex", AT,
    ]),
    "a date of RFC 850": (["unavailable_after: Friday, 25-Jun-10 23:00:00 UTC"], [AT]),
    "a date of ISO 8601": (["unavailable_after: 2010-06-25T15:00:00-08:00"], [AT]),
    "a date without a zone": (["unavailable_after: 2010-06-25 23:00"], [AT]),
    "the first of two dates": (
        ["unavailable_after: 2099-01-01", "unavailable_after: 25 Jun 2010 15:00:00 PST"], [AT],
    ),
    "a date for others": (["otherbot: unavailable_after: 25 Jun 2010 15:00:00 PST"], []),
    "no date": (["unavailable_after: soon, noindex", "unavailable_after"], ["noindex"]),
    "limits": (["max-snippet:20, max-image-preview: large, max-video-preview:-1"], [
        "max-snippet=20", "max-image-preview=large", "max-video-preview=-1",
    ]),
    "the lowest limit": (["max-snippet:-1", "max-snippet: 9", "max-snippet:20"], ["max-snippet=9"]),
    "the strictest image": (["max-image-preview:standard", "max-image-preview:large"], [
        "max-image-preview=standard",
    ]),
    "limits that are none": (["max-snippet:x, max-image-preview:9, max-foo:1"], []),
    "not words": (["<script>, noindex!, 7"], []),
    "too long": ([f"noindex{', noindex' * 2000}, nofollow"], ["noindex"]),
    "a piece without an end": (["x" * 20_000, "noindex"], []),
    "more than sixteen": ([", ".join(f"no-{each}" for each in "abcdefghijklmnopqrst"), "noindex"], [
        "noindex", *(f"no-{letter}" for letter in "abcdefghijklmno"),
    ]),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "expected"), LINES.values(), ids=LINES)
def test_a_header_is_read_as_search_engines_say(lines: list[str], expected: list[str]) -> None:
    """Directives for all agents and for this one add up, and the stricter one holds."""
    assert _header(*lines) == expected


HEADS: dict[str, tuple[str, list[str]]] = {
    "to all": ('<meta name="robots" content="noindex">', ["noindex"]),
    "any case": ("<META NAME=ROBOTS CONTENT=NoIndex>", ["noindex"]),
    "to us": ('<meta name="ExampleBot" content="nofollow">', ["nofollow"]),
    "to others": ('<meta name="otherbot" content="noindex"><!-- robots -->', []),
    "all of them": (
        '<meta name=robots content=noarchive><meta name=examplebot content="none">',
        ["noindex", "nofollow", "noarchive"],
    ),
    "the value before the name": ('<meta content="noindex" name="robots">', ["noindex"]),
    "in the body": ("</head>\n<body class=x><meta name=robots content=noindex>", []),
    "a head without an end": ("<body><meta name=robots content=noindex>", ["noindex"]),
    "a body in a title": ("<title><body></title><meta name=robots content=noindex>", ["noindex"]),
    "a page in an attribute": (
        '<meta name=description content="<head></head><body>"><meta name=robots content=noindex>',
        ["noindex"],
    ),
    "a tag like a body": ("</head><body-x><meta name=robots content=noindex>", ["noindex"]),
    "a name with escapes": ("<meta name='rob&#111;ts' content=no&#x69;ndex>", ["noindex"]),
    "our name with escapes": ("<meta content=nofollow name=&#69;xamplebot>", ["nofollow"]),
    "a body in a comment": ("<!-- <body> --><meta name=robots content=noindex>", ["noindex"]),
    "a body in a script": (
        "<script>'<body>'</script><meta name=robots content=noindex>", ["noindex"],
    ),
    "a body in an attribute": (
        '<meta name=description content="<body> <b>"><meta name=robots content=noindex>',
        ["noindex"],
    ),
    "in a comment": ("<!-- <meta name=robots content=noindex> -->", []),
    "in a script": ("<script>'<meta name=robots content=noindex>'</script>", []),
    "in a template": ("<template><meta name=robots content=noindex></template>", []),
    "for those without scripts": (
        "<noscript><meta name=robots content=noindex></noscript>", ["noindex"],
    ),
    "behind a paragraph": ("<p>x<meta name=robots content=noindex>", ["noindex"]),
    "without content": ("<meta name=robots><meta name=robots content>", []),
    "far down": (f"<!-- {'x' * 70_000} --><meta name=robots content=noindex>", []),
}  # fmt: skip


@pytest.mark.parametrize(("head", "expected"), HEADS.values(), ids=HEADS)
def test_a_head_is_read_by_its_elements(head: str, expected: list[str]) -> None:
    """Reads elements of a head only, not text that looks like one; the stricter reading counts."""
    assert _html(f"<html><head><title>x</title>{head}</head><body>y</body></html>") == expected


def test_header_and_head_add_up_in_any_encoding() -> None:
    """Other types than HTML have the directives of their headers."""
    head = '<meta name="robots" content="nofollow">'
    headers = {"X-Robots-Tag": "noindex"}
    assert _html(head, headers=headers) == ["noindex", "nofollow"]
    utf_16 = {"Content-Type": "text/html; charset=utf-16"}
    assert _html(f"<title>ä</title>{head}".encode("utf-16"), headers=utf_16) == ["nofollow"]
    plain = Response(URL, body=head.encode(), headers=headers)
    assert directives_of(plain, "bot").texts == ("noindex",)
    assert directives_of(Response(URL, body=head.encode()), "bot") is NO_DIRECTIVES


def test_an_agent_without_a_name_is_nobody_in_particular() -> None:
    """A request may have no User-Agent; an element without a name is not for it."""
    markup = b"<meta name='' content=noindex><meta name=robots content=nofollow>"
    assert directives_of(HtmlResponse(URL, body=markup), product_token("")).texts == ("nofollow",)


@given(st.lists(st.text("nofindexrbtax-_:,;*= 019\0", max_size=80), max_size=5))
def test_whatever_is_said_is_read(lines: list[str]) -> None:
    """Texts come out that a result may carry: few, short, each once."""
    texts = _header(*lines)
    assert len(set(texts)) == len(texts) <= 16
    assert all(len(text) <= 64 and text.isascii() and " " not in text for text in texts)
    markup = "".join(f"<meta name=robots content='{line}'>" for line in lines)
    assert len(_html(markup)) <= 16


ROBOTS = "<meta name=robots content=noindex>"
HOSTILE: dict[str, str] = {
    "metas": "<meta " * 11_000 + "robots",
    "robots metas": ROBOTS * 2000,
    "deep": "<div>" * 3000 + ROBOTS * 1400,
    "deep in templates": "<b>" * 2000 + ROBOTS * 1400,
    "dates": f"<meta name=robots content='{'unavailable_after: 25 Jun 2010 15:00 PST,' * 1500}'>",
    "commas": f"<meta name=robots content='unavailable_after:{',   ' * 15_000}'>",
    "agents": f"<meta name=robots content='{'a:' * 30_000}'>",
    "attributes": f"<meta {' '.join(f'a{n}=b' for n in range(8000))} name=robots>",
    "spaces": f"<meta {' ' * 60_000}name=robots>",
    "comments": "<!--" * 15_000 + ROBOTS,
    "escapes": "name=&#" * 9_000,
    "names": f"name{' ' * 30_000}name={' ' * 30_000}&#",
    "bodies": "</head><body>" * 4_000 + ROBOTS,
}


@pytest.mark.parametrize("head", HOSTILE.values(), ids=HOSTILE)
def test_no_head_is_expensive(head: str) -> None:
    """Reads any 64 KiB in some milliseconds, also behind a page of megabytes."""
    assert cpu_s(lambda: _html(head + "<p>x</p>" * 250_000)) < 0.05
    assert cpu_s(lambda: _header(head, *[head] * 100)) < 0.05
