"""A page as HTML that cannot load or run anything, but has its structure, links and tables."""

from __future__ import annotations

import nh3

from crawlstream_extract.hrefs import Hrefs
from crawlstream_extract.tidy import TidyOptions, tidied

BLOCKS = frozenset(
    {
        *("address", "article", "aside", "blockquote", "caption", "dd", "details", "div", "dl"),
        *("dt", "fieldset", "figcaption", "figure", "footer", "h1", "h2", "h3", "h4", "h5", "h6"),
        *("header", "hr", "legend", "li", "main", "nav", "ol", "p", "pre", "section", "summary"),
        *("table", "tbody", "tfoot", "thead", "tr", "ul", "br"),
    }
)
INLINE = frozenset(
    {
        *("a", "abbr", "b", "bdi", "bdo", "cite", "code", "data", "del", "dfn", "em", "i", "img"),
        *("ins", "kbd", "mark", "q", "rp", "rt", "ruby", "s", "samp", "small", "span", "strong"),
        *("sub", "sup", "time", "u", "var", "wbr"),
    }
)
CELLS = frozenset({"td", "th", "col", "colgroup"})
_LONGEST = 500_000
"""Characters that nh3 is given: it takes quadratic time for some texts, too."""
_SCHEMES = {"http", "https", "mailto", "tel"}

_CLEANER = nh3.Cleaner(
    tags=set((BLOCKS | INLINE | CELLS) - {"img"}),
    attributes={
        "a": {"href"},
        "code": {"class"},
        "ol": {"start"},
        "pre": {"class"},
        "td": {"colspan", "rowspan"},
        "th": {"colspan", "rowspan"},
    },
    url_schemes=_SCHEMES,
    link_rel="nofollow noopener noreferrer",
    strip_comments=True,
)


def safe_html(markup: str, hrefs: Hrefs, most: int, *, main: bool = True) -> tuple[str, bool]:
    """Return the elements of a page by an allow-list, and whether the end is left out.

    They have absolute links and no images, and ``most`` characters at most.

    nh3 runs last. It parses as browsers do, and takes quadratic time for deep nesting: it is given
    a tree that lxml has read, which is not deep.
    """
    options = TidyOptions(main=main, is_inert=False, is_shallow=True)
    tidy = tidied(markup, hrefs, options)
    html = _CLEANER.clean(tidy[:_LONGEST]).strip()
    if len(html) <= most:
        return html, len(tidy) > _LONGEST
    return _cut(html, most), True


def _cut(html: str, most: int) -> str:
    """Return HTML of at most ``most`` characters, with ends of the elements that are cut."""
    room = most
    while room > 0:
        # In a tag, too: what is left of it is removed by the cleaner.
        end = max(html.rfind(mark, 0, room + 1) for mark in "<& ")
        made = _CLEANER.clean(html[: max(end, 0)]).strip()
        if len(made) <= most:
            return made
        room -= len(made) - most
    return ""
