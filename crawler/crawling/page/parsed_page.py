"""The markup of a page, parsed once: its elements wherever they stand, and its base.

The tree is libxml2's, like that of ``response.selector``. Browsers go on where libxml2 begins a
document of its own, behind a ``</html>``, and where it ends, far down in other elements. So a page
may have several roots, which count as one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, cast

from lxml import etree
from scrapy.http import HtmlResponse

from crawling.quality.canonical import is_canonical
from crawlstream.model.web.address import document_base
from crawlstream_extract.markup import LONGEST_MARKUP, beginning, may_be_deep, pieces

_LONGEST_BODY = 4 * LONGEST_MARKUP
"""Bytes that this many characters take at most."""
_MOST_LINKS_OF_HEAD = 256
"""``link`` elements of a head that are read."""

_texts_of: Any = etree.XPath("descendant::text()", smart_strings=False)
"""All text nodes of an element: four times as fast as with a condition about their parents."""
_deep = etree.HTMLParser(recover=True, encoding="utf-8", huge_tree=True, collect_ids=False)
_shallow = etree.HTMLParser(recover=True, encoding="utf-8", huge_tree=False, collect_ids=False)
"""They end where elements are 2048 and 256 deep in one another."""
_DEEP_TAGS, _SHALLOW_TAGS = 2000, 240
"""Tags that can never nest as deep as that, below ``html`` and ``body``."""


class ParsedPage:
    """Elements of a page, in the order of its markup."""

    def __init__(self, response: HtmlResponse) -> None:
        """Parse the page, as far as its length and its attributes allow."""
        self._url = response.url
        self.markup, is_all = _markup(response)
        self._roots, is_read = _roots_of(self.markup)
        self.is_whole = is_all and is_read
        """True if all of the page was read."""

    def elements(self, *names: str) -> Iterator[Any]:
        """Yield the elements of these names."""
        for root in self._roots:
            yield from root.iter(*names)

    @property
    def texts(self) -> Sequence[str]:
        """Text nodes, in their order; also those of scripts and styles."""
        found: list[str] = []
        for root in self._roots:
            found += _texts_of(root)
        return found

    @property
    def hidden_texts(self) -> Collection[str]:
        """Texts of scripts and styles."""
        found = {element.text for element in self.elements("script", "style")}
        return cast("set[str]", found - {None})

    @property
    def canonicals(self) -> Iterator[str]:
        """Yield the references that the head names as the page's canonical URL."""
        for element in islice(self.elements("link", "body"), _MOST_LINKS_OF_HEAD):
            if element.tag == "body":
                return
            href = element.get("href")
            if href is not None and is_canonical(element.get("rel")):
                yield href

    @cached_property
    def base(self) -> str:
        """The URL that references are relative to: that of the first base element with one."""
        for element in self.elements("base"):
            href = element.get("href")
            if href is not None and not is_within(element, "template"):
                return document_base(self._url, href)
        return self._url


def is_within(element: Any, *names: str) -> bool:
    """Return whether an element stands in one of these names."""
    return next(element.iterancestors(*names), None) is not None


def _markup(response: HtmlResponse) -> tuple[str, bool]:
    """Return the text of a page, or its whole elements as far as may be read; and which of both."""
    if len(response.body) > _LONGEST_BODY:  # As text it may take four times its bytes.
        response = response.replace(body=response.body[:_LONGEST_BODY])
    return beginning(response.text)


def _roots_of(markup: str) -> tuple[Sequence[Any], bool]:
    """Return the trees of a page, and whether they are all of it.

    One that is too deep is read in pieces with so few tags that none can be.
    """
    parser, tags = (_deep, _DEEP_TAGS) if may_be_deep(markup) else (_shallow, _SHALLOW_TAGS)
    roots, is_whole = _parsed(markup, parser)
    if is_whole:
        return roots, True
    parsed = [_parsed(piece, parser) for piece in pieces(markup, tags)]
    return [root for roots, _ in parsed for root in roots], all(is_whole for _, is_whole in parsed)


def _parsed(markup: str, parser: Any) -> tuple[Sequence[Any], bool]:
    root = etree.fromstring(markup.encode("utf-8", "replace") or b"<html/>", parser)
    if root is None:
        return (), True
    error = parser.error_log.last_error
    is_whole = error is None or error.type != etree.ErrorTypes.ERR_RESOURCE_LIMIT
    return (root, *root.itersiblings("*")), is_whole
