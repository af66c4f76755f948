"""Formats of a page: what they hold, within which limits, and what cannot be made."""

from __future__ import annotations

from typing import Any

import pytest

from crawlstream_extract.cut import cut, cut_markdown
from crawlstream_extract.extract import FORMATS, Extracted, ExtractRequest, extract
from crawlstream_extract.markup import LONGEST_MARKUP

PAGE = b"""<!doctype html><html lang="de"><title>Lamps</title><base href="/d/"><nav>menu</nav>
<main><h1>Lamps</h1><p>One <a href="a?x=1#f" onclick="x()">lamp</a>, <a href="a?x=1">same</a>,
<a href="javascript:x()">none</a>.</p><img src="i.png" onerror="x()"><script>x()</script></main>"""


def extracted(body: bytes = PAGE, **changes: Any) -> Extracted:
    """Return the formats of a page."""
    asked: dict[str, Any] = {
        "encoding": "utf-8",
        "mime": "text/html",
        "url": "http://a.example/c/p",
        "formats": FORMATS,
    }
    return extract(ExtractRequest(body=body, **asked | changes))


def test_all_formats_of_a_page() -> None:
    """Links are absolute, by the page's base, and nothing runs."""
    found = extracted()
    metadata = dict(found.formats["metadata"])
    assert (metadata.pop("title"), metadata.pop("lang")) == ("Lamps", "de")
    assert not any(metadata.values())
    assert {**found.formats, "metadata": None} == {
        "markdown": "# Lamps\n\nOne [lamp](http://a.example/d/a?x=1#f), "
        "[same](http://a.example/d/a?x=1), none.",
        "text": "Lamps\n\nOne lamp, same,\nnone.",
        "html": '<div>\n<main><h1>Lamps</h1><p>One <a href="http://a.example/d/a?x=1#f" '
        'rel="nofollow noopener noreferrer">lamp</a>, <a href="http://a.example/d/a?x=1" '
        'rel="nofollow noopener noreferrer">same</a>,\n'
        '<a rel="nofollow noopener noreferrer">none</a>.</p></main></div>',
        "links": [{"url": "http://a.example/d/a?x=1", "text": "lamp"}],
        "metadata": None,
    }
    assert (found.truncated, found.problems) == (False, ())


def test_only_what_is_asked_for_is_made() -> None:
    """Requests the whole page instead of its main content."""
    found = extracted(formats=["text"], main=False)
    assert found.formats == {"text": "menu\n\nLamps\n\nOne lamp, same,\nnone."}


@pytest.mark.parametrize("name", ["markdown", "text", "html"])
def test_texts_are_cut(name: str) -> None:
    """Cuts a text at the end of a block and reports it; a shorter text stays whole."""
    body = b"<main>" + b"<p>some words of a block</p>" * 100
    found = extracted(body, formats=[name], max_chars=1000)
    assert found.truncated
    assert 900 < len(found.formats[name]) <= 1000
    assert found.formats[name].endswith("block" if name != "html" else "</p></main>")
    assert not extracted(body, formats=[name], max_chars=5000).truncated


def test_code_that_is_cut_is_closed() -> None:
    """Closes code that is cut, so that the text after it is not code."""
    text = "a\n\n```py\n" + "x = 1\n" * 50 + "```\n"
    found, is_cut = cut_markdown(text, 100)
    assert is_cut
    assert found.count("```") == 2
    assert len(found) <= 100
    assert cut("word " * 10, 12) == ("word word", True)
    assert cut("x" * 20, 12) == ("x" * 12, True)


@pytest.mark.parametrize(
    ("body", "encoding", "text"),
    [
        ("<p>Größe €".encode("cp1252"), "cp1252", "Größe €"),
        ("<p>Größe".encode("latin-1"), "utf-8", "Gr��e"),
        ("<p>x".encode("utf-16"), "no-such-charset", "��<p>x"),
        (b"<p>a\0b<\0b>c", "utf-8", "ab**c**"),
        (b"", "utf-8", ""),
    ],
)
def test_any_bytes_are_a_page(body: bytes, encoding: str, text: str) -> None:
    """Accepts any bytes as a page, whatever charset they are declared in."""
    found = extracted(body, encoding=encoding)
    assert not found.problems
    if encoding != "no-such-charset":
        assert found.formats["markdown"] == text


def test_what_is_not_html() -> None:
    """Text is text; of anything else there is nothing, and each format says so."""
    found = extracted(b"a <b>\n[x](y)", mime="text/plain", formats=["text", "markdown", "links"])
    assert found.formats == {
        "text": "a <b>\n[x](y)",
        "markdown": "a &lt;b>\n[x&#93;(y)",
        "links": None,
    }
    assert found.problems == ("links: not_html",)
    found = extracted(b"%PDF", mime="application/pdf", encoding="binary", formats=["markdown"])
    assert (found.formats, found.problems) == ({"markdown": None}, ("markdown: not_html",))


def test_long_pages_are_cut_before_they_are_read() -> None:
    """The beginning is there, and it is reported that more was not read."""
    found = extracted(b"<p>begin</p>" + b"<br>" * LONGEST_MARKUP, formats=["text"])
    assert (found.formats["text"], found.truncated) == ("begin", True)
    found = extracted(b"word " * LONGEST_MARKUP, formats=["text"])
    assert (len(found.formats["text"]), found.truncated) == (199_999, True)


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("<div>" * 50_000 + "word " * 30, 30),
        ("<table><tr>" + "<td>some words " * 20_000, 40_000),
        ("<nav>" + "<p>words in a menu</p>" * 10, 40),
    ],
)
def test_words_are_not_lost_silently(page: str, words: int) -> None:
    """Returns the whole page if the engine or the main content loses nearly all words."""
    found = extracted(page.encode(), formats=["markdown"], max_chars=1_000_000)
    assert len(found.formats["markdown"].replace("|", " ").split()) >= words
