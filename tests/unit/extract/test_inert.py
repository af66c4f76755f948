"""Markdown of any page has nothing active in it, as an independent reader of Markdown sees it."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator, Sequence

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from crawlstream_extract.hrefs import Hrefs
from crawlstream_extract.markdown import MarkdownOptions, markdown_of
from crawlstream_extract.markup import beginning

SOUPS = int(os.environ.get("MARKDOWN_SOUPS", "1500"))
ELEMENTS = (
    *("a", "b", "i", "p", "div", "ul", "ol", "li", "blockquote", "pre", "code", "table", "tr"),
    *("td", "th", "thead", "h1", "h3", "span", "em", "strong", "del", "s", "sub", "mark", "kbd"),
    *("samp", "var", "tt", "br", "hr", "dl", "dt", "dd", "details", "summary", "figure", "q"),
    *("figcaption", "cite", "abbr", "ruby", "rt", "rp", "section", "main", "font", "img", "label"),
    *("form", "xmp", "listing", "textarea", "button", "select", "option", "time", "caption"),
    *("math", "svg", "noscript", "template", "plaintext", "dfn", "bdo", "legend", "colgroup"),
)
TEXTS = (
    *("&lt;script&gt;alert(1)&lt;/script&gt;", "&lt;", "script>", "[x](javascript:alert(1))"),
    *("](javascript:alert(1))", "[", "](", "(javascript:x)", "]", "`", "``", "```", "~~~", "~"),
    *("\n", "\n\n", "    ", "\t", "&lt;img src=x onerror=a()&gt;", "word", "* ", "- ", "1. ", "# "),
    *("> ", "|", "---", "===", "\\", "\\&lt;b&gt;", "&amp;lt;script&amp;gt;", "!", "![", ":"),
    *("[x]: javascript:alert(1)", "&lt;javascript:alert(1)&gt;", "&lt;!--", "--&gt;", "&lt;?php"),
    *("&lt;![CDATA[", "\u200b", "&#8203;", "&#0;", "&nbsp;", "&lt;a&nbsp;href=x&gt;", "```html"),
    *('"', "'", "&lt;/code&gt;", "&lt;http://e.example/&gt;", "&#10;", "&#13;", "__", "&lt;x"),
)
ATTRIBUTES = (
    *("", ' href="javascript:alert(1)"', ' href="/x y"', ' href="data:text/html,a"'),
    *(' href="a)b"', ' href="&lt;script&gt;"', ' href="/x" title="&quot;) [x](javascript:1)"'),
    *(' src=/i.png alt="](javascript:1)"', ' class="language-&quot;&gt;&lt;script&gt;"'),
    *(' class="language-x"', " start=5", " colspan=3", " src=javascript:1 alt=x", " onclick=a()"),
    *(' href=" java&#10;script:x"', ' href="http://x.example/`a`"', ' href="mailto:a@b.c"'),
    *(' href="//e/\\"', ' cite="javascript:1"', ' href="#&lt;b&gt;"', ' href="vbscript:x"'),
)
_HARMLESS = re.compile(r"https?://|mailto:|tel:", re.IGNORECASE)
_READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
# It would hide the worst ones.
setattr(_READER, "validateLink", lambda _: True)  # noqa: B010  mypy knows it as a method


def markdown(page: str, **options: object) -> str:
    """Return Markdown of a page."""
    hrefs = Hrefs("http://x.example/d/p", "utf-8")
    return markdown_of(beginning(page)[0], hrefs, MarkdownOptions(**options))[0]  # type: ignore[arg-type]


def active(text: str) -> Sequence[tuple[str, str]]:
    """Return tags, and links and images that are not to a web page, of Markdown."""
    return list(_active(_READER.parse(text)))


def _active(tokens: Sequence[Token]) -> Iterator[tuple[str, str]]:
    for token in tokens:
        if token.type in ("html_block", "html_inline"):
            yield token.type, token.content
        for name in ("href", "src"):
            if name in token.attrs and not _HARMLESS.match(str(token.attrs[name])):
                yield token.type, str(token.attrs[name])
        yield from _active(token.children or ())


def soup(seed: int) -> str:
    """Return elements, attributes and texts in any order."""
    chance = random.Random(seed)
    made: list[str] = []
    opened: list[str] = []
    for _ in range(chance.randint(2, 14)):
        kind = chance.random()
        if kind < 0.4:
            opened.append(chance.choice(ELEMENTS))
            made.append(f"<{opened[-1]}{chance.choice(ATTRIBUTES)}>")
        elif kind < 0.6 and opened:
            made.append(f"</{opened.pop(chance.randrange(len(opened)))}>")
        else:
            made.append(chance.choice(TEXTS))
    return "".join(made)


@pytest.mark.parametrize("href", ["a)b", "a(b", "a)(b", "a((b)", "a(b)"])
def test_parentheses_of_an_address_end_no_link(href: str) -> None:
    """Percent-encodes those without a partner, which would end a definition."""
    text = markdown(f'<a href="{href}">x</a>(javascript:x)', main=False, links="reference")
    assert not active(text)
    inline = next(token.children for token in _READER.parse(text) if token.children)
    link = inline[0]
    assert (link.type, bool(_HARMLESS.match(str(link.attrs["href"])))) == ("link_open", True)


def test_soups_have_nothing_active_in_their_markdown() -> None:
    """``MARKDOWN_SOUPS`` sets their number."""
    first = random.randrange(1 << 30)
    for seed in range(first, first + SOUPS):
        page = soup(seed)
        for options in ({"main": False}, {"main": False, "images": True, "links": "reference"}):
            text = markdown(page, **options)
            assert not active(text), (seed, page, text)


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p>&lt;script&gt;x()&lt;/script&gt;", "&lt;script>x()&lt;/script>"),
        ("<p>[x](javascript:y())", "[x&#93;(javascript:y())"),
        ("<p>[x<b>]</b>(javascript:y())", "[x**]**&#40;javascript:y())"),
        ("<p><span>&lt;</span>script>", "&lt;script>"),
        ("<p>&lt;\u200bscript>", "&lt;script>"),
        ("<p>`<code>&lt;b></code>", "&#96;`<b>`"),
        ("<p>```</p><pre>&lt;b></pre>", "&#96;&#96;&#96;\n\n```\n<b>\n```"),
        ("<b><pre>&lt;b></pre></b>", "**&lt;b>**"),
        ("<p>Hi!<a href=/x>x</a>", "Hi![x](http://x.example/x)"),
        ("<ruby>[x]<rt>javascript:y()</rt></ruby>", "[x] javascript:y()"),
        ("<a href='java&#10;script:x()'>a</a> <a href=data:text/html,x>b</a>", "a b"),
        ("<p onclick=x()>a<iframe src=/f></iframe><object data=/o>o</object>", "a"),
        ("<svg><script>x()</script></svg><math><mtext><script>y()</script></math>z", "z"),
        ("<pre>```\n&lt;b></pre>", "````\n```\n<b>\n````"),
    ],
)
def test_texts_mean_nothing_in_markdown(page: str, text: str) -> None:
    """Escapes texts so that none is Markdown, alone or with what follows it."""
    assert markdown(page, main=False) == text
    assert not active(text)


def test_invisible_text_is_left_out() -> None:
    """Elements that are hidden, and characters that cannot be seen or turn others round."""
    page = (
        "<p>a\u200b&#x202e;b\U000e0041</p><p hidden>1</p><p style='display : none'>2</p>"
        "<p aria-hidden=true>3</p><p style='visibility:hidden'>4</p><p style='font-size:0'>5</p>"
        "<p style='font-size:0.9em'>6</p><!-- 7 -->"
    )
    assert markdown(page) == "ab\n\n6"
    assert markdown(page, hidden=True).split() == ["ab", "1", "2", "3", "4", "5", "6"]
