"""Entries of sitemaps (sitemaps.org), their indexes, RSS, Atom, robots.txt and llms.txt.

They are read in pieces, unpacked as they are read, and no tree is made of them, so that their size
does not matter to the memory. There is neither a DTD nor an entity but the five of XML: any other
ampersand stands for itself, as those who write sitemaps by hand mean it.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from itertools import chain, islice
from typing import Any, NamedTuple

from lxml import etree

from crawlstream.model.web.address import resolved
from crawlstream_extract.hrefs import Hrefs, refusal_of
from crawlstream_extract.markdown_links import markdown_links
from crawlstream_extract.sitemap_text import (
    CutShort,
    as_xml,
    beginning_of,
    closed,
    documents_of,
    lines_of,
    text_of,
)

MOST_LISTED = 50_000
"""Entries of one file, as sitemaps.org has it; those beyond are counted."""
MOST_STEPS = 800_000
"""Elements, lines and pieces of text that are looked at: sixteen for each entry."""
MOST_HOSTS = 1_000
"""Hosts that one file may send to: sitemaps are of one, feeds of some."""
MOST_DEPTH = 100
"""Elements in one another."""
MOST_CHARACTERS = 8 << 20
"""Characters of all URLs of one file."""
LLMS_TXT = "/llms.txt"
"""Path of a Markdown file that lists pages of its site (llmstxt.org)."""
MOST_IN_LLMS_TXT = 5_000
"""Links of one llms.txt; those beyond are counted."""
LONGEST_LLMS_TXT = 1 << 20
"""Bytes that are read of one llms.txt."""

_LONGEST_TEXT = 4_096
"""Characters of a field; nothing longer is a URL."""
_LONGEST_TITLE = 500
_MOST_ROBOTS = 512 * 1024
"""Bytes of a robots.txt, as RFC 9309 has it."""
_SITEMAP = re.compile(rb"^[ \t]*sitemap[ \t]*:[ \t]*(\S+)", re.IGNORECASE | re.MULTILINE)
_ALONE = re.compile(r"https?://\S+", re.IGNORECASE)
"""A line of a sitemap that is text."""
_PAGE = re.compile(rb"[\s\xef\xbb\xbf]*+<(?:!doctype|html|head|body|\?xml)", re.IGNORECASE)
"""How a page begins that a site sends in place of an llms.txt, after comments."""
_COMMENT = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)
_BEGINNING = 4_096
"""Bytes in which that is searched."""
_DATE = re.compile(
    r"[0-9]{4}(?:-[0-9]{2}(?:-[0-9]{2}"
    r"(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?)?)?"
)
"""Form of a date in sitemaps and Atom."""

_ROOTS = frozenset({"urlset", "sitemapindex", "rss", "RDF", "feed"})
_BASE = "{http://www.w3.org/XML/1998/namespace}base"
_ITEMS = frozenset({"url", "sitemap", "item", "entry"})
_DATES = ("lastmod", "updated", "pubDate", "date", "published")
"""Fields with the date of the last change, the best first."""
_LINKS = frozenset({"loc", "link", "guid"})
_FIELDS = _LINKS | {"title", *_DATES}


class SitemapEntry(NamedTuple):
    """An entry of a file."""

    url: str
    """An address."""
    title: str = ""
    lastmod: str = ""
    """When it was changed last, in the words of ISO 8601; empty if the file does not say."""


@dataclass(slots=True)
class SitemapListing:
    """Entries of a file, in its order."""

    sitemaps: list[SitemapEntry] = field(default_factory=list)
    pages: list[SitemapEntry] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    """How many entries were left out because the file is too long (``too_many``), and whether it
    was not read to its end (``sitemap_cut``) or is none that can be read (``sitemap_unread``)."""
    why: str = ""
    """Why it was not read to its end, if that is the file's own fault."""


def listing_of(url: str, body: bytes, *, is_whole: bool = True) -> SitemapListing:
    """Return what a file at a URL lists: a sitemap, a feed, robots.txt or llms.txt.

    ``is_whole``: whether the body did not break off on its way here.
    """
    path = url.partition("?")[0]
    if path.endswith("/robots.txt"):
        found = _of_robots(url, body)
    else:
        read = _read_llms_txt if path.endswith(LLMS_TXT) else _read
        found = _read_by(read, url, body)
    if not is_whole:
        found.refused["sitemap_cut"] = 1
    return found


def _read_by(read: Callable[[_Reader, bytes], None], url: str, body: bytes) -> SitemapListing:
    reader = _Reader(url)
    refused = reader.found.refused
    try:
        read(reader, body)
    except CutShort as cut:
        refused["sitemap_cut"] += 1
        reader.found.why = str(cut)
    if not (reader.is_known or refused):
        refused["sitemap_unread"] += 1
    return reader.found


def _of_robots(url: str, body: bytes) -> SitemapListing:
    named = named_in(body)
    urls = filter(None, (resolved(url, each) for each in named[:MOST_LISTED]))
    listing = SitemapListing(sitemaps=[SitemapEntry(each) for each in urls])
    if (beyond := len(named) - MOST_LISTED) > 0:
        listing.refused["too_many"] = beyond
    return listing


def named_in(robots: bytes) -> Sequence[str]:
    """Return the different sitemaps that a robots.txt names, as it writes them."""
    text = robots[:_MOST_ROBOTS].removeprefix(codecs.BOM_UTF8)
    found = _SITEMAP.findall(text.replace(b"\r", b"\n"))
    return list(dict.fromkeys(each.decode("utf-8", "replace") for each in found))


def _read(reader: _Reader, body: bytes) -> None:
    pieces = text_of(body)
    head = next(pieces, b"")
    start = beginning_of(head)
    if start is None:
        for line in lines_of(chain((head,), pieces), _LONGEST_TEXT):
            reader.line(line)
    else:
        _feed(reader, chain((head[start:],), pieces))


def _read_llms_txt(reader: _Reader, body: bytes) -> None:
    """Read the links of Markdown, up to the maximum or to a part that cannot be read."""
    text, why = _beginning_of(body)
    reader.is_known = not _PAGE.match(_COMMENT.sub(b"", text[:_BEGINNING]))
    if reader.is_known:
        links = markdown_links(text.decode("utf-8", "replace"))
        for title, url in islice(links, MOST_IN_LLMS_TXT):
            reader.link(url, title)
        if beyond := sum(1 for _ in links):
            reader.found.refused["too_many"] += beyond
    if why:
        raise CutShort(why)


def _beginning_of(body: bytes) -> tuple[bytes, str]:
    """Return the text of a file as far as it may be read, and why it is not all of it."""
    text = bytearray()
    try:
        for piece in text_of(body):
            text += piece
            if len(text) > LONGEST_LLMS_TXT:
                break
    except CutShort as cut:
        return bytes(text), str(cut)
    is_long = len(text) > LONGEST_LLMS_TXT
    return bytes(text[:LONGEST_LLMS_TXT]), "it is longer than 1 MiB" if is_long else ""


def _feed(reader: _Reader, pieces: Iterable[bytes]) -> None:
    """Have XML read: one document, or several that were joined to one file."""
    parser = _parser(reader)
    try:
        for piece, may_begin in documents_of(closed(as_xml(pieces))):
            if may_begin and reader.has_ended:
                parser.close()
                parser = _parser(reader)
            parser.feed(piece)
            reader.check()
        parser.close()
    except etree.LxmlError as error:
        raise CutShort(f"it is not XML: {str(error)[:100]}") from error
    if reader.is_known and reader.depth:
        raise CutShort("it ends before its last element does")


def _parser(reader: _Reader) -> etree.XMLParser:
    target: Any = reader
    return etree.XMLParser(
        target=target,
        encoding="utf-8",
        recover=True,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
    )


class _Reader:
    """Takes what the parser meets, and keeps what it lists."""

    def __init__(self, url: str) -> None:
        self.found = SitemapListing()
        self.steps = 0
        self._url = url
        self._resolve = Hrefs(url, "utf-8").resolve
        self._hosts: set[str] = set()
        self._room = MOST_CHARACTERS
        self.depth = 0
        self._is_index = False
        self.is_known = False
        """True if anything has shown that this is a sitemap or a feed."""
        self._item_at = 0
        self._item: dict[str, str] = {}
        self._kind = self._space = ""
        """Name and namespace of the item."""
        self._bases: list[tuple[int, str]] = []
        """Values of ``xml:base``, each with its depth."""
        self._field: str | None = None
        self._text: list[str] = []
        self._length = 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""
        self.depth += 1
        self.steps += 1
        space, _, name = tag.rpartition("}")
        if attributes and _BASE in attributes:
            base = self._by_base(attributes[_BASE][:_LONGEST_TEXT])
            self._bases.append((self.depth, resolved(self._url, base) or self._url))
        is_below = self.depth == self._item_at + 1
        # An item in another item: the outer one has no end tag.
        if self._item_at and not (is_below and tag == self._kind):
            is_own = space == self._space or name in _DATES
            if is_below and is_own and name in _FIELDS:
                self._begin(name, attributes)
        elif name in _ITEMS and self.depth > 1:
            self._keep(self._item)
            self._item_at, self._item = self.depth, {}
            self._kind, self._space, self.is_known = tag, space, True
            self._is_index = name == "sitemap"
        elif self.depth == 1:
            self.is_known = self.is_known or name in _ROOTS

    def _begin(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "loc" and self._item.get("loc"):
            self._keep(self._item)
            self._item = {}
        self._field, self._text, self._length = name, [], 0
        is_link = name == "link" and attributes.get("rel", "alternate") == "alternate"
        if is_link and (href := attributes.get("href", "")[:_LONGEST_TEXT]):
            self._item.setdefault("href", self._by_base(href))
        if name == "guid" and attributes.get("isPermaLink", "true") != "true":
            self._field = None

    def data(self, text: str) -> None:
        """Text, or a part of it."""
        self.steps += 1
        if self._field and self._length < _LONGEST_TEXT:
            self._text.append(text[:_LONGEST_TEXT])
            self._length += len(text)

    def end(self, _tag: str) -> None:
        """An element ends."""
        if self._field and self.depth == self._item_at + 1:
            # Escaped text in CDATA, or text that was escaped twice.
            text = self._text[0] if len(self._text) == 1 else "".join(self._text)
            text = text.strip()
            if "&" in text:
                text = text.replace("&amp;", "&")
            if self._bases and self._field in _LINKS:
                text = self._by_base(text)
            if text and (len(text) < _LONGEST_TEXT or self._field == "title"):
                self._item.setdefault(self._field, text)
            self._field = None
        elif self._item_at and self.depth == self._item_at:
            self._end_item()
        if self._bases and self._bases[-1][0] == self.depth:
            self._bases.pop()
        self.depth -= 1

    def _end_item(self) -> None:
        self._keep(self._item)
        self._item_at, self._item = 0, {}

    def close(self) -> Any:
        """The file has come to its end, perhaps amid an item."""
        self._end_item()

    def line(self, text: str) -> None:
        """A line of a file that has no markup."""
        self.steps += 1
        if _ALONE.fullmatch(text):
            self.is_known = True
            self._keep({"loc": text})
        self.check()

    def link(self, url: str, title: str) -> None:
        """A link of a file in Markdown."""
        if len(url) < _LONGEST_TEXT and not url.startswith("#"):
            self._keep({"loc": url, "title": title})

    @property
    def has_ended(self) -> bool:
        """Return whether the last element that began has come to its end."""
        return self.steps > 0 and not self.depth

    def check(self) -> None:
        """CutShort where enough has been read."""
        if self.steps > MOST_STEPS:
            raise CutShort("it has too many elements or lines")
        if self.depth > MOST_DEPTH:
            raise CutShort("its elements are too deep in one another")

    def _by_base(self, url: str) -> str:
        """Return a URL as ``xml:base`` means it, where there is one."""
        return resolved(self._bases[-1][1], url) or url if url and self._bases else url

    def _keep(self, item: Mapping[str, str]) -> None:
        said = item.get("loc") or item.get("link") or item.get("href") or item.get("guid")
        if not said:
            return
        found = self.found
        if len(found.pages) + len(found.sitemaps) >= MOST_LISTED or self._room < len(said):
            found.refused["too_many"] += 1
            return
        self._room -= len(said)
        if not (url := self._resolve(said)):
            found.refused[refusal_of(said)] += 1
            return
        self._hosts.add(url[: url.find("/", 8)])
        if len(self._hosts) > MOST_HOSTS:
            found.refused["too_many"] += 1
            return
        dates = (_date(item[name]) for name in _DATES if item.get(name))
        listed = SitemapEntry(
            url, item.get("title", "")[:_LONGEST_TITLE], next(filter(None, dates), "")
        )
        (found.sitemaps if self._is_index else found.pages).append(listed)


def _date(text: str) -> str:
    """A date as sitemaps and Atom have it, or as mails and RSS; empty for anything else."""
    if _DATE.fullmatch(text):
        return text
    try:
        return parsedate_to_datetime(text[:100]).isoformat()
    except (ValueError, TypeError, OverflowError):
        return ""
