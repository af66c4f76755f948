"""The head of a page: everything before its body, in its first 64 KiB.

It is searched as bytes for the words that matter, and parsed only if it has one. ``<body>`` may
also stand in a title or an attribute, and the head goes on behind it: a head that does not plainly
end is read up to its last element.
"""

from __future__ import annotations

import html
import re
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
_LONGEST_TAG = 16 * 1024
"""Bytes that are read of the last element of a head whose end is not known."""
_ESCAPED = re.compile(rb"(?:name|rel)\s*+=\s*+[\"']?[^\"'>&]{0,64}&#")
"""A name or relation with a letter that is written as a number."""
_FEEDS = frozenset({"application/rss+xml", "application/atom+xml"})
_PAIRS = ((b"<!--", b"-->"), (b"<script", b"</script"), (b"<style", b"</style"))
"""Begin and end of parts whose markup is none."""


class Head:
    """Reads the elements of the head of a page."""

    __slots__ = ("_body", "_markup", "_response", "letters")

    letters: bytes
    """All of it in lower case, to be searched for words."""

    def __init__(self, response: HtmlResponse) -> None:
        """Find its end; nothing is parsed yet."""
        self._response = response
        self._body, text = _found_in(response.body)
        self._markup: ParsedPage | None = None
        self.letters = text.replace(b"\0", b"") if b"\0" in text else text  # UTF-16: half NUL.
        if b"&#" in text and _ESCAPED.search(text):
            self.letters = html.unescape(text.decode("latin-1")).lower().encode("utf-8", "replace")

    def metas(self, names: Container[str]) -> Iterator[tuple[str, str]]:
        """Yield name and content of its ``meta`` elements of these names, which are lower-case."""
        for element in self._some("meta", "name", lambda name: name in names):
            yield element.get("name").strip().lower(), element.get("content") or ""

    def links(self, rel: str) -> Iterator[str]:
        """Yield the addresses of its ``link`` elements with a relation."""
        for element in self._some("link", "rel", lambda rels: rel in rels.split()):
            if target := resolved(self._parsed.base, element.get("href") or ""):
                yield target

    def feeds(self) -> Iterator[str]:
        """Yield the addresses of RSS and Atom feeds that it names as another form of the page."""
        if b"alternate" not in self.letters:
            return
        for element in self._some("link", "type", _is_feed):
            is_alternate = "alternate" in (element.get("rel") or "").lower().split()
            if is_alternate and (target := resolved(self._parsed.base, element.get("href") or "")):
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


def _is_feed(media_type: str) -> bool:
    return media_type.partition(";")[0].rstrip() in _FEEDS


def head_of(response: Response) -> Head | None:
    """Return the head of a page; None if it is not HTML."""
    return Head(response) if isinstance(response, HtmlResponse) else None


def _found_in(body: bytes) -> tuple[bytes, bytes]:
    """Return the head of a page, and the same in lower-case letters."""
    end = body.find(b"<body", 0, _BYTES)
    if _is_tag(body, end) and _is_over(text := body[:end].lower()):
        return body[:end], text
    text = body[:_BYTES].lower()
    end = text.find(b"<body")
    if not (_is_tag(text, end) and _is_over(text[:end])):
        # No element of a head follows its last one. Others are not found in text of UTF-16.
        last = max(text.rfind(b"<meta"), text.rfind(b"<link"))
        end = len(text) if b"\0" in text else last + _LONGEST_TAG
    return body[: min(end, _BYTES)], text[:end]


def _is_tag(body: bytes, place: int) -> bool:
    """Return whether ``<body`` at a place is a whole name."""
    return place > 0 and body[place + 5 : place + 6] in b"> \t\n\f\r/"


def _is_over(head: bytes) -> bool:
    """Return whether a text ends with the tag that ends a head: not a quoted one."""
    is_closed = all(head.count(begin) <= head.count(end) for begin, end in _PAIRS)
    return head.rstrip().endswith(b"</head>") and is_closed and head.count(b'"') % 2 == 0
