"""What sitemaps and feeds list: sitemaps (sitemaps.org), their indexes, RSS, Atom, and robots.txt.

They are read in pieces, unpacked as they are read, and no tree is made of them, so that their size
does not matter to the memory. There is neither a DTD nor an entity but the five of XML: any other
ampersand stands for itself, as those who write sitemaps by hand mean it.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import urljoin

import structlog
from lxml import etree

from crawling.decoding import MOST_PARTS

MOST_LISTED = 50_000
"""Entries of one file, as sitemaps.org has it; those beyond are counted."""
MOST_UNPACKED = 50 << 20
"""Bytes of one file, unpacked, as sitemaps.org has it."""
MOST_STEPS = 800_000
"""Elements and pieces of text that are looked at: sixteen for each entry."""
MOST_HOSTS = 1_000
"""Hosts that one file may send to: sitemaps are of one, feeds of some."""
MOST_DEPTH = 100
"""Elements in one another."""
MOST_CHARACTERS = 8 << 20
"""What the URLs of one file may be long together."""

_PIECE = 1 << 16
_LONGEST_TEXT = 4_096
"""Characters of a field; longer ones are no URL."""
_LONGEST_TITLE = 500
_MOST_ROBOTS = 512 * 1024
"""Bytes of a robots.txt, as RFC 9309 has it."""
_GZIP = b"\x1f\x8b"
_SITEMAP = re.compile(rb"^[ \t]*sitemap[ \t]*:[ \t]*(\S+)", re.IGNORECASE | re.MULTILINE)
_AMPERSAND = re.compile(rb"&(?!(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#x[0-9A-Fa-f]{1,6});)")
_LONGEST_ENTITY = 10
"""Bytes; a piece does not end within one."""
_DATE = re.compile(
    r"[0-9]{4}(?:-[0-9]{2}(?:-[0-9]{2}"
    r"(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?)?)?"
)
"""What sitemaps and Atom call a date."""

_ITEMS = frozenset({"url", "sitemap", "item", "entry"})
_DATES = ("lastmod", "updated", "pubDate", "date", "published")
"""Fields that tell when something was changed, the best first."""
_FIELDS = frozenset({"loc", "link", "guid", "title", *_DATES})

log = structlog.get_logger()


class Listed(NamedTuple):
    """One thing that a file lists."""

    url: str
    """Absolute, as it stands there or resolved."""
    title: str = ""
    lastmod: str = ""
    """When it was changed last, in the words of ISO 8601; empty if the file does not say."""


@dataclass(slots=True)
class Listing:
    """What a file lists, in its order."""

    sitemaps: list[Listed] = field(default_factory=list)
    pages: list[Listed] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    """How many entries were left out because the file is too long (``too_many``), and whether it
    was not read to its end (``sitemap_cut``)."""


def listing_of(url: str, body: bytes) -> Listing:
    """What a file at a URL lists; nothing if it is neither a sitemap nor a feed nor robots.txt."""
    if url.partition("?")[0].endswith("/robots.txt"):
        return _of_robots(url, body)
    reader = _Reader(url)
    try:
        _feed(reader, body)
    except _Enough as cut:
        reader.found.refused["sitemap_cut"] += 1
        log.warning("parse", outcome="sitemap_cut", url=url, why=str(cut))
    return reader.found


class _Enough(Exception):
    """The rest of a file is not read, and why."""


def _of_robots(url: str, body: bytes) -> Listing:
    found = _SITEMAP.findall(body[:_MOST_ROBOTS].replace(b"\r", b"\n"))
    named = list(dict.fromkeys(each.decode("utf-8", "replace") for each in found))
    urls = filter(None, (_resolved(url, each) for each in named[:MOST_LISTED]))
    listing = Listing(sitemaps=[Listed(each) for each in urls])
    if (beyond := len(named) - MOST_LISTED) > 0:
        listing.refused["too_many"] = beyond
    return listing


def _feed(reader: _Reader, body: bytes) -> None:
    target: Any = reader
    parser = etree.XMLParser(
        target=target,
        recover=True,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
    )
    try:
        for piece in _plain(_unpacked(body)):
            parser.feed(piece)
            if reader.steps > MOST_STEPS:
                raise _Enough("it has too many elements")
            if reader.depth > MOST_DEPTH:
                raise _Enough("its elements are too deep in one another")
        parser.close()
    except etree.LxmlError as error:
        raise _Enough(f"it is not XML: {str(error)[:100]}") from error


def _unpacked(body: bytes) -> Iterator[bytes]:
    """The file in pieces, unpacked if it is gzip."""
    if not body.startswith(_GZIP):
        for start in range(0, min(len(body), MOST_UNPACKED), _PIECE):
            yield body[start : start + _PIECE]
        return
    room = MOST_UNPACKED
    for _ in range(MOST_PARTS):
        member = zlib.decompressobj(16 + zlib.MAX_WBITS)
        for piece in _pieces_of(member, body):
            if (room := room - len(piece)) < 0:
                raise _Enough(f"it is longer than {MOST_UNPACKED} bytes, unpacked")
            yield piece
        body = member.unused_data
        if not body.startswith(_GZIP):
            return
    raise _Enough(f"it is compressed in more than {MOST_PARTS} parts")


def _pieces_of(member: Any, body: bytes) -> Iterator[bytes]:
    try:
        while body and not member.eof:
            yield member.decompress(body, _PIECE)
            body = member.unconsumed_tail
    except zlib.error as error:
        raise _Enough(f"it cannot be unpacked: {error}") from error
    if not member.eof:
        raise _Enough("it ends amid what is packed")


def _plain(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same with every ampersand as XML would have it, but in UTF-16, where none is wrong."""
    kept, is_wide = b"", None
    for piece in pieces:
        if is_wide is None:
            is_wide = b"\0" in piece[:4]
        if is_wide:
            yield piece
            continue
        piece = kept + piece  # noqa: PLW2901
        at = piece.rfind(b"&", -_LONGEST_ENTITY)
        piece, kept = (piece, b"") if at < 0 else (piece[:at], piece[at:])  # noqa: PLW2901
        yield _AMPERSAND.sub(b"&amp;", piece)
    yield _AMPERSAND.sub(b"&amp;", kept)


class _Reader:
    """Takes what the parser meets, and keeps what it lists."""

    def __init__(self, url: str) -> None:
        self.found = Listing()
        self.steps = 0
        self._url = url
        self._origin = url[: url.find("/", url.find("//") + 2)]
        self._hosts: set[str] = set()
        self._room = MOST_CHARACTERS
        self.depth = 0
        self._is_index = False
        self._item_at = 0
        self._item: dict[str, str] = {}
        self._field: str | None = None
        self._text: list[str] = []
        self._length = 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""
        self.depth += 1
        self.steps += 1
        name = tag.rpartition("}")[2]
        if self._item_at:
            if self.depth == self._item_at + 1 and name in _FIELDS:
                self._begin(name, attributes)
        elif name in _ITEMS and self.depth > 1:
            self._item_at, self._item = self.depth, {}
            self._is_index = name == "sitemap"

    def _begin(self, name: str, attributes: Mapping[str, str]) -> None:
        self._field, self._text, self._length = name, [], 0
        if name == "link" and attributes.get("rel", "alternate") == "alternate":
            self._item.setdefault("href", attributes.get("href", "")[:_LONGEST_TEXT])
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
            # What stands in CDATA was none, and got one all the same; or it was written twice.
            text = self._text[0] if len(self._text) == 1 else "".join(self._text)
            text = text.strip()
            if "&" in text:
                text = text.replace("&amp;", "&")
            if len(text) < _LONGEST_TEXT or self._field == "title":
                self._item.setdefault(self._field, text)
            self._field = None
        elif self._item_at and self.depth == self._item_at:
            self._item_at = 0
            self._keep(self._item)
        self.depth -= 1

    def close(self) -> Any:
        """The file has come to its end."""
        return None

    def _resolved(self, url: str) -> str:
        if url.startswith("/") and not url.startswith("//"):
            return self._origin + url
        return _resolved(self._url, url)

    def _keep(self, item: Mapping[str, str]) -> None:
        said = item.get("loc") or item.get("link") or item.get("href") or item.get("guid")
        if not said:
            return
        found = self.found
        if len(found.pages) + len(found.sitemaps) >= MOST_LISTED or self._room < len(said):
            found.refused["too_many"] += 1
            return
        self._room -= len(said)
        if not (url := self._resolved(said)):
            found.refused["url"] += 1
            return
        self._hosts.add(url[: url.find("/", 8)])
        if len(self._hosts) > MOST_HOSTS:
            found.refused["too_many"] += 1
            return
        dates = (_date(item[name]) for name in _DATES if item.get(name))
        listed = Listed(url, item.get("title", "")[:_LONGEST_TITLE], next(filter(None, dates), ""))
        (found.sitemaps if self._is_index else found.pages).append(listed)


def _resolved(base: str, url: str) -> str:
    """An absolute URL; empty where there is none."""
    if url.startswith(("http://", "https://")):
        return url
    try:
        return urljoin(base, url)
    except ValueError:
        return ""


def _date(text: str) -> str:
    """A date as sitemaps and Atom have it, or as mails and RSS; empty for anything else."""
    if _DATE.fullmatch(text):
        return text
    try:
        return parsedate_to_datetime(text[:100]).isoformat()
    except (ValueError, TypeError, OverflowError):
        return ""
