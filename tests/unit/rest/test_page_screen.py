"""A fetched page on its screen: hostile or endless, it is text; and lists that links sort."""

from __future__ import annotations

import time

import pytest

from rest_service.dashboard import page_screen
from rest_service.dashboard.cleaned import LONGEST, preview, readable
from rest_service.dashboard.listing import Listing, ordered
from rest_service.dashboard.render import render
from support.hostile_texts import SCRIPTS
from unit.rest.test_pages import OPERATOR, OWN_TAGS, Seen, page_values


@pytest.mark.parametrize("tab", list(page_screen._TABS))
@pytest.mark.parametrize("text", SCRIPTS)
def test_no_part_of_a_page_is_an_element(text: str, tab: str) -> None:
    """Makes no element of a page's text in any tab; a preview's frame may do nothing."""
    screen = render("page.html", client=OPERATOR, **page_values(text, tab))
    elements = Seen(bytes(screen.body)).elements
    frames = [attributes for tag, attributes in elements if tag == "iframe"]
    assert {tag for tag, _ in elements} <= OWN_TAGS | {"iframe", "mark"}
    assert all(one["sandbox"] in {None, ""} for one in frames)
    assert all((one["src"] or "").startswith("/ui/page/preview?") for one in frames)
    for _, attributes in elements:
        assert not any(name.startswith(("on", "style")) for name in attributes)
        assert (attributes.get("href") or "/").startswith(("/", "#"))


@pytest.mark.parametrize("text", SCRIPTS)
def test_what_is_left_of_a_page_holds_no_address_and_no_script(text: str) -> None:
    """A preview has elements and attributes of a list, none of which can lead or do anything."""
    seen = Seen(preview(f'<p>{text}<p title="{text}">{text}', text).encode())
    assert not {tag for tag, _ in seen.elements} & {"script", "iframe", "link", "base", "form"}
    names = {name for _, attributes in seen.elements for name in attributes}
    assert names <= {"lang", "charset", "name", "content", "alt", "dir", "colspan", "rowspan"}
    assert "://" not in preview(f'<a href="http://x/">{text.replace("://", "")}</a>', "x")


def test_the_text_of_a_page_is_what_people_read() -> None:
    """A line for each block, entities as characters, neither scripts nor titles nor comments."""
    body = "<title>t</title><h1>A &lt; b</h1><!-- c --><p>one\n  two<br>three<script>s</script>"
    table = "<table><tr><td>1<td>2<tr><td>&amp;lt;p&amp;gt;</table>"
    assert readable(body + table) == "A < b\none two\nthree\n1 2\n&lt;p&gt;"
    assert readable("") == readable("<script>x") == ""
    assert readable("\0\ud800") in {"", "?"}


@pytest.mark.parametrize("part", ["<b><i><a><div>", "<table><td>", "<a><b></a>", "<div x=", "&#x"])
def test_no_page_takes_long_to_clean(part: str) -> None:
    """Cleans half a megabyte of any page in less than two seconds of CPU."""
    began = time.process_time()
    preview(part * (LONGEST // len(part)), "x")
    assert time.process_time() - began < 2


def test_a_page_without_its_body_says_why() -> None:
    """The reason is text, as all that a record says."""
    values = page_values("<i>x")
    for tab in ("text", "raw", "preview"):
        screen = bytes(render("page.html", client=OPERATOR, **{**values, "tab": tab}).body)
        assert b"was not kept, because the page says <code>&lt;i&gt;x</code>" in screen
    values["value"].pop("dropped")
    assert b"was not kept" not in bytes(render("page.html", client=OPERATOR, **values).body)


def test_a_page_without_a_screenshot_says_why() -> None:
    """The reason is text; a page whose crawl wants none says nothing."""
    values = {**page_values("<i>x"), "tab": "preview"}
    for told, said in (({"error": "<i>x"}, b"No screenshot: <code>&lt;i&gt;x"), ("<i>", b"")):
        values["value"]["screenshot"] = told
        screen = bytes(render("page.html", client=OPERATOR, **values).body)
        assert said in screen
        assert b"/ui/page/screenshot" not in screen


def test_a_page_shows_its_canonical_url_and_signature() -> None:
    """Each of them where it is known, as text."""
    values = page_values("<i>x")
    screen = bytes(render("page.html", client=OPERATOR, **values).body)
    assert b"Canonical URL" in screen
    assert b"text signature <code>&lt;i&gt;x</code>" in screen
    for name in ("canonical", "text_signature"):
        values["value"].pop(name)
        assert b"Canonical URL" not in bytes(render("page.html", client=OPERATOR, **values).body)
    assert b"text signature" not in bytes(render("page.html", client=OPERATOR, **values).body)


def test_a_text_is_shown_in_parts() -> None:
    """Shows a text from a place on, or from shortly before the first later match."""
    text = "a" * 250_000 + "Needle" + "b" * 10
    start = page_screen.excerpt(text, "", 0)
    assert (start.start, start.end, start.length) == (0, 100_000, 250_016)
    found = page_screen.excerpt(text, "needle", 0)
    assert (found.start, found.end, found.matches) == (248_000, 250_016, 1)
    assert [part for part in found.parts if part[0]] == [(True, "Needle")]
    assert "".join(part for _, part in found.parts) == text[248_000:]
    assert page_screen.excerpt(text, ".*", 0).matches == 0
    assert page_screen.excerpt("", "x", 9).parts == []


def test_lists_are_sorted_by_links() -> None:
    """A column leads to the list by it, largest numbers first, and then the other way round."""
    listing = Listing("/x", {"q": "a&b", "state": ""}, "-done", frozenset({"done"}))
    assert listing.by("name") == "/x?q=a%26b&sort=name"
    assert listing.by("done") == "/x?q=a%26b&sort=done"
    assert (listing.direction("done"), listing.direction("name")) == ("descending", "none")
    rows, columns = [3, None, 1], {"n": lambda one: one}
    assert ordered(rows, "-n", columns, otherwise="n") == ([3, 1, None], "-n")
    assert ordered(rows, "nonsense", columns, otherwise="n") == ([1, 3, None], "n")
