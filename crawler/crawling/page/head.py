"""The head of a page: everything before the tag of its body, in its first 64 KiB.

It is searched as bytes for the words that matter, and parsed only if it has one.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from itertools import islice
from typing import Any

from scrapy.http import HtmlResponse, Response

from crawling.page.parsed_page import ParsedPage, is_within
from crawlstream.model.web.address import resolved

_BYTES = 64 * 1024
"""Bytes of a page in which its head is searched."""
_MOST_ELEMENTS = 64
"""Elements that are read: far down a deep tree each one is expensive."""
_PAIRS = ((b"<!--", b"-->"), (b"<script", b"</script"), (b"<style", b"</style"))
"""Begin and end of parts whose markup is none."""


class Head:
    """Reads the elements of the head of a page."""

    __slots__ = ("_body", "_markup", "_response", "letters")

    letters: bytes
    """All of it in lower case, to be searched for words."""

    def __init__(self, response: HtmlResponse) -> None:
        """Find its end; nothing is parsed yet."""
        body = response.body[:_BYTES]
        text = body.lower()
        end = text.find(b"<body")
        if end >= 0 and _is_markup(text[:end]):
            body, text = body[:end], text[:end]
        self._response, self._body = response, body
        self._markup: ParsedPage | None = None
        self.letters = text.replace(b"\0", b"") if b"\0" in text else text  # UTF-16: half NUL.

    def metas(self, names: Container[str]) -> Iterator[tuple[str, str]]:
        """Yield name and content of its ``meta`` elements of these names, which are lower-case."""
        for element in self._some("meta", "name", lambda name: name in names):
            yield element.get("name").strip().lower(), element.get("content") or ""

    def links(self, rel: str) -> Iterator[str]:
        """Yield the addresses of its ``link`` elements with a relation."""
        for element in self._some("link", "rel", lambda rels: rel in rels.split()):
            if target := resolved(self._parsed.base, element.get("href") or ""):
                yield target

    def _some(self, tag: str, attribute: str, is_meant: Any) -> Iterator[Any]:
        """Yield elements with a value of an attribute that is meant, in lower-case letters."""
        found = (
            each
            for each in self._parsed.elements(tag)
            if is_meant((each.get(attribute) or "").strip().lower())
        )
        for element in islice(found, _MOST_ELEMENTS):
            if not is_within(element, "template"):
                yield element

    @property
    def _parsed(self) -> ParsedPage:
        if self._markup is None:
            self._markup = ParsedPage(self._response.replace(body=self._body))
        return self._markup


def head_of(response: Response) -> Head | None:
    """Return the head of a page; None if it is not HTML."""
    return Head(response) if isinstance(response, HtmlResponse) else None


def _is_markup(head: bytes) -> bool:
    """Return whether a text ends between two tags: not in a comment, a script or an attribute."""
    is_closed = all(head.count(begin) <= head.count(end) for begin, end in _PAIRS)
    return is_closed and head.rfind(b"<") <= head.rfind(b">")
