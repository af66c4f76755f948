"""Input of a stage: a result, typed, with its text and its tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from lxml import etree, html
from parsel import Selector

from crawlstream.markup import may_be_deep, parsable
from crawlstream.model.delivered import XML, Delivered, is_xhtml

_NAMES = tuple(each.name for each in fields(Delivered))


@dataclass(frozen=True, kw_only=True)
class Page(Delivered):
    """A page that was crawled: the fields of its result, its text and its tree.

    ``body`` has the bytes that the site has sent, after content decoding.
    """

    fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields that earlier stages have made of the page, or of this item of it."""

    @cached_property
    def text(self) -> str:
        """The body as text; what its charset cannot say is U+FFFD. Empty if it is not text."""
        if self.encoding == "binary":
            return ""
        try:
            return self.body.decode(self.encoding or "utf-8", "replace")
        except (LookupError, ValueError):
            return self.body.decode("utf-8", "replace")

    @cached_property
    def markup(self) -> str:
        """The text, up to an element that would take a parser minutes."""
        return parsable(self.text)[0]

    @cached_property
    def select(self) -> Selector:
        """The page's tree: ``page.select.css("h1::text").get()``, ``page.select.xpath(…)``."""
        if _is_xml(self.mime) and not self.is_html:
            return Selector(text=self.markup, type="xml")
        if may_be_deep(self.markup):
            return Selector(text=self.markup, type="html")
        return Selector(root=_shallow(self.markup), type="html")

    @property
    def is_html(self) -> bool:
        """True if the site calls it HTML, or XML and it is XHTML, or nothing and it is text."""
        if self.mime in XML:
            return is_xhtml(self.body)
        if self.mime:
            return self.mime in ("text/html", "application/xhtml+xml")
        return self.encoding != "binary"


def page_of(result: Delivered) -> Page:
    """Return the result as a page."""
    return Page(**{name: getattr(result, name) for name in _NAMES})


def with_fields(page: Page, made: Mapping[str, Any]) -> Page:
    """Return the page with other fields of earlier stages; its text and tree are kept."""
    other = object.__new__(Page)
    for name in _NAMES:
        object.__setattr__(other, name, getattr(page, name))
    other.__dict__.update(page.__dict__)
    other.__dict__["fields"] = made
    return other


def _shallow(markup: str) -> Any:
    """Return the tree of a page as parsel makes it, but 256 elements deep at most."""
    parser = html.HTMLParser(recover=True, encoding="utf8", huge_tree=False)
    root = etree.fromstring(markup.encode("utf-8", "replace"), parser)
    return etree.fromstring(b"<html/>", parser) if root is None else root


def _is_xml(mime: str) -> bool:
    return mime in XML or (mime.endswith("+xml") and "html" not in mime)
