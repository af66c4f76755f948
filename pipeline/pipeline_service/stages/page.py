"""Input of a stage: a result, typed, with its text and its tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from parsel import Selector

from crawlstream.model.delivered import Delivered
from crawlstream_extract.markup import parsable
from crawlstream_extract.page_tree import is_html, is_xml, selector_of, text_of

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
        return text_of(self.body, self.encoding)

    @cached_property
    def markup(self) -> str:
        """The text, up to an element that would take a parser minutes."""
        return parsable(self.text)[0]

    @cached_property
    def select(self) -> Selector:
        """The page's tree: ``page.select.css("h1::text").get()``, ``page.select.xpath(…)``."""
        if is_xml(self.mime) and not self.is_html:
            return Selector(text=self.markup, type="xml")
        return selector_of(self.markup)

    @property
    def is_html(self) -> bool:
        """True if the site calls it HTML, or XML and it is XHTML, or nothing and it is text."""
        return is_html(self.mime, self.encoding, self.body)


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
