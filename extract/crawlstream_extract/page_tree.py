"""The text of a body, and its tree."""

from __future__ import annotations

from typing import Any

from lxml import etree, html
from parsel import Selector

from crawlstream.model.delivered import XML, is_xhtml
from crawlstream_extract.markup import may_be_deep

BINARY = "binary"
"""Encoding of a body that is not text."""


def text_of(body: bytes, encoding: str | None) -> str:
    """Return a body as text; what its charset cannot say is U+FFFD. Empty if it is not text."""
    if encoding == BINARY:
        return ""
    try:
        return body.decode(encoding or "utf-8", "replace")
    except (LookupError, ValueError):
        return body.decode("utf-8", "replace")


def is_html(mime: str, encoding: str | None, body: bytes) -> bool:
    """Return whether the site calls it HTML, or XML and it is XHTML, or nothing and it is text."""
    if mime in XML:
        return is_xhtml(body)
    if mime:
        return mime in ("text/html", "application/xhtml+xml")
    return encoding != BINARY


def is_xml(mime: str) -> bool:
    """Return whether a media type is of XML other than XHTML."""
    return mime in XML or (mime.endswith("+xml") and "html" not in mime)


def selector_of(markup: str) -> Selector:
    """Return the tree of HTML that `markup.parsable` has returned."""
    if may_be_deep(markup):
        return Selector(text=markup, type="html")
    return Selector(root=_shallow(markup), type="html")


def _shallow(markup: str) -> Any:
    """Return the tree of a page as parsel makes it, but 256 elements deep at most."""
    parser = html.HTMLParser(recover=True, encoding="utf8", huge_tree=False)
    root = etree.fromstring(markup.encode("utf-8", "replace"), parser)
    return etree.fromstring(b"<html/>", parser) if root is None else root
