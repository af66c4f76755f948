"""The links of an office document: an archive of XML files, of which one or a few have them.

Office Open XML (docx, xlsx, pptx) has them in files of relationships, OpenDocument in its content.
The files are searched, not parsed: a parser would take entities and depths from a stranger.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape
from io import BytesIO
from zipfile import BadZipFile, ZipFile

from crawlstream_extract.hrefs import Hrefs

MOST_LINKS = 5_000
MOST_FILES = 500
"""Files of relationships that are read: a presentation has one for each slide."""
MOST_BYTES = 32 << 20
"""Bytes of these files when they are unpacked."""
UNREADABLE, ENCRYPTED = "unreadable", "encrypted"
_LONGEST_URL = 4_096
_CONTENT = "content.xml"
_RELATIONSHIP = re.compile(r"<(?:\w+:)?Relationship\b([^<>]*)>")
_TARGET = re.compile(r"""\sTarget\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_HYPERLINK = "/relationships/hyperlink"
_ANCHOR = re.compile(r"<(?:text|draw):a\b([^<>]*)>")
_HREF = re.compile(r"""\sxlink:href\s*=\s*(?:"([^"]*)"|'([^']*)')""")


@dataclass(slots=True)
class OfficeLinks:
    """Links of a document."""

    links: dict[str, None] = field(default_factory=dict)
    """Absolute addresses of the web, each once."""
    is_truncated: bool = False
    """True if links are missing because of a bound."""
    error: str | None = None
    """UNREADABLE, or ENCRYPTED: it needs a password. There are no links then."""


def links_of_office(body: bytes, hrefs: Hrefs) -> OfficeLinks:
    """Return the links of a document."""
    found = OfficeLinks()
    try:
        with ZipFile(BytesIO(body)) as archive:
            for text in _texts(archive, found):
                _take(_references(text), hrefs, found)
    except (BadZipFile, EOFError, NotImplementedError, OSError, ValueError, zlib.error):
        return OfficeLinks(error=UNREADABLE)
    except RuntimeError:
        return OfficeLinks(error=ENCRYPTED)
    return found


def _texts(archive: ZipFile, found: OfficeLinks) -> Iterator[str]:
    """Yield the files that may have links, within the bounds."""
    wanted = [one for one in archive.infolist() if _has_links(one.filename)]
    found.is_truncated = len(wanted) > MOST_FILES
    room = MOST_BYTES
    for one in wanted[:MOST_FILES]:
        with archive.open(one) as file:
            raw = file.read(room + 1)
        if len(raw) > room:
            found.is_truncated = True
            raw = raw[:room]
        room -= len(raw)
        yield raw.decode("utf-8", "replace")


def _has_links(name: str) -> bool:
    return name.endswith(".rels") or name == _CONTENT


def _references(text: str) -> Iterator[str]:
    for tag in _RELATIONSHIP.finditer(text):
        if _HYPERLINK in tag[1] and (target := _TARGET.search(tag[1])):
            yield target[1] or target[2] or ""
    for tag in _ANCHOR.finditer(text):
        if target := _HREF.search(tag[1]):
            yield target[1] or target[2] or ""


def _take(references: Iterator[str], hrefs: Hrefs, found: OfficeLinks) -> None:
    for reference in references:
        if len(found.links) >= MOST_LINKS:
            found.is_truncated = True
            return
        is_short = len(reference) <= _LONGEST_URL
        if is_short and (url := hrefs.resolve(unescape(reference))):
            found.links[url] = None
