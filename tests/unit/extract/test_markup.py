"""Markup that a parser is given: no element of it has attributes without end."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence

import pytest
from lxml import etree

from crawlstream_extract.markup import MOST_ATTRIBUTES, parsable

_MOST_UNSEEN = MOST_ATTRIBUTES + 1024 // 2 + 128
"""Attributes that may stand before the first probe of an element, and pass those behind it."""
SOUPS = int(os.environ.get("MARKUP_SOUPS", "600"))
_LONG, _SHORT = 3 * _MOST_UNSEEN, MOST_ATTRIBUTES // 2


def _attributes(count: int, form: str = " a{}") -> str:
    return "".join(map(form.format, range(count)))


def _element(form: str = " a{}") -> str:
    return f"<p{_attributes(_LONG, form)}>"


CROWDED = _element()

HIDDEN = {
    "behind quoted brackets": _element(" a{}='>'"),
    "behind brackets in either quotes": _element(" a{0}='<b>' b{0}=\"'>'\""),
    "behind one bracket in single quotes": f"<p x='>'{_attributes(_LONG)}>",
    "behind one bracket in double quotes": f'<p x=">"{_attributes(_LONG)}>',
    "behind slashes": _element("/a{}"),
    "behind spaces around equals signs": _element("\n a{} \t=\f'>'"),
    "behind NUL": CROWDED.replace("<p", "<\0p"),
    "behind a comment": f"<!-- <p x=' -->{CROWDED}",
    "behind an abrupt comment": f"<!-->{CROWDED}-->",
    "behind a comment that ends in a mark": f"<!-- --!>{CROWDED}<!-- -->",
    "behind a declaration": f"<!DOCTYPE html PUBLIC '>{CROWDED}",
    "behind CDATA": f"<![CDATA[ > {CROWDED} ]]>",
    "behind an instruction": f"<?x y='?>{CROWDED}",
    "behind a script": f"<script>'<p x='</script>{CROWDED}",
    "behind a script in a script": f"<script><!--<script></script> x='--></script>{CROWDED}",
    "behind a style": f"<style><p x='</STYLE\n>{CROWDED}",
    "behind a title": f"<title><p x='</title/>{CROWDED}",
    "behind an unclosed tag": f"<a href=/x {CROWDED}",
    "behind quotes of text": f"it's {CROWDED} it's",
    "in an end tag": CROWDED.replace("<p", "</p"),
    "in a tag without end": CROWDED[:-1],
    "of a script": CROWDED.replace("<p", "<script"),
}
HARMLESS = {
    "a script": f"<script>if (a<b) {_attributes(_LONG)} </script>",
    "a script that writes scripts": f"<script><!--<script></script>{CROWDED}--></script>",
    "a comment": f"<!-- {CROWDED} -->",
    "a style": f"<style>a<b {_attributes(_LONG)}</style>",
    "a textarea": f"<textarea>{CROWDED}</textarea>",
    "plain text": f"<plaintext>{CROWDED}",
    "a value": f'<p title="{CROWDED}">',
    "a long text": f"<p>1 < 2 {_attributes(_LONG)}</p>",
    "long values": f"<img src='data:{'A/+=' * 30_000}'><p>" * 2,
    "as many as are allowed": f"<p{_attributes(MOST_ATTRIBUTES)}>" * 20,
}


def _most_attributes(markup: str) -> int:
    """Return how many attributes the parser sees at most in one element."""
    parser = etree.HTMLParser(recover=True, encoding="utf-8", huge_tree=True)
    root = etree.fromstring(markup.encode() or b"<p>", parser)
    each = () if root is None else root.iter(etree.Element)
    return max((len(element.attrib) for element in each), default=0)


@pytest.mark.parametrize("name", HIDDEN)
def test_markup_ends_where_an_element_has_too_many_attributes(name: str) -> None:
    """Cuts it off wherever it hides, and keeps what stands before it."""
    before = "<a href=/1>1</a>" * 100
    markup, is_whole = parsable(before + HIDDEN[name] + "<a href=/2>")
    assert not is_whole
    assert markup.startswith(before)
    assert "a9" not in markup.removeprefix(before)


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_no_element_is_not_cut(name: str) -> None:
    """Texts, scripts, comments and values may hold what looks like a crowded element."""
    page = f"<p>{HARMLESS[name]}"
    assert parsable(page) == (page, True)


def test_markup_is_what_the_parser_is_to_see() -> None:
    """Space around it and NUL would hide tags from the first check."""
    assert parsable(" <\0p>x\0 ") == ("<p>x", True)


_PIECES = (
    *(
        "<p ",
        "<p",
        "</p",
        "<a href=",
        "<",
        ">",
        "'",
        '"',
        "=",
        "/",
        " ",
        "\n",
        "<!--",
        "-->",
        "--!>",
    ),
    *("<!-->", "<!--->", "-", "<!", "<?", "</", "<script>", "</script>", "<script", "</script"),
    *("<style>", "</style>", "<textarea>", "</textarea>", "<title>", "</title>", "<xmp>", "</xmp>"),
    *("<iframe>", "</iframe>", "<noscript>", "</noscript>", "<noembed>", "</noembed>", "<svg>"),
    *("<![CDATA[", "]]>", "<select>", "<table>", "<template>", "a=b", "a='", 'b="', "<plaintext>"),
    *("<!doctype x '", "<SCRIPT\n>", "</STYLE/>", "&amp;", "\xa0", "\x0b", "\u017f", "\0", "\r"),
)
_CROWDS = tuple(
    _attributes(count, form)
    for count, form in ((_SHORT, " s{}"), (_LONG, " l{}"), (_LONG, " q{}='>'"), (_LONG, "/c{}"))
)


def _soup(dice: random.Random) -> str:
    def piece() -> str:
        kinds: Sequence[str] = _CROWDS if dice.random() < 0.06 else _PIECES
        return dice.choice(kinds)

    return "".join(piece() for _ in range(dice.choice((10, 30, 60))))


@pytest.mark.parametrize("first", range(0, SOUPS, 200))
def test_the_parser_sees_no_crowd_in_any_soup_of_tags(first: int) -> None:
    """The scan and the parser agree about where tags, comments and texts begin and end."""
    for seed in range(first, first + 200):
        markup, _ = parsable(_soup(random.Random(seed)))
        assert _most_attributes(markup) <= _MOST_UNSEEN, f"seed {seed}"
