"""The text and the links of a PDF, by PDFium.

PDFium is native code, and a file of 20 KB may need gigabytes: run it only where time and memory are
limited, as in `workers`.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pypdfium2 import PdfDocument, PdfiumError, PdfPage, PdfTextPage, raw

from crawlstream_extract.cut import cut
from crawlstream_extract.hrefs import Hrefs

MOST_LINKS = 5_000
UNREADABLE, ENCRYPTED = "unreadable", "encrypted"
PAGE_BREAK = "\n\f"
"""Between the texts of two pages."""
_LONGEST_URL, _LONGEST_NAME = 4_096, 1_000
_LONGEST_LANG = 64
_NOT_TEXT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ufffe\uffff]")
"""Control characters; U+0002 and U+FFFE stand for a hyphen at the end of a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PdfLimits:
    """Limits of what is read of a document."""

    max_pages: int = 500
    max_chars: int = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PdfContent:
    """Content of a document; its texts are None where there are none."""

    text: str | None = None
    """Its pages, with PAGE_BREAK between them; lines end with a line feed."""
    title: str | None = None
    author: str | None = None
    lang: str | None = None
    """Language that it declares, as a tag of BCP 47."""
    page_count: int | None = None
    links: Sequence[str] = ()
    """Absolute addresses of the web, each once, of annotations and of the text."""
    is_truncated: bool = False
    """True if text or links are missing, because of a limit or a page that cannot be read."""
    error: str | None = None
    """UNREADABLE, or ENCRYPTED: it needs a password. There is nothing else then."""


def content_of(body: bytes, hrefs: Hrefs, limits: PdfLimits) -> PdfContent:
    """Return the content of a PDF."""
    try:
        opened = PdfDocument(body)
    except PdfiumError as error:
        is_locked = error.err_code == raw.FPDF_ERR_PASSWORD
        return PdfContent(error=ENCRYPTED if is_locked else UNREADABLE)
    with opened:
        return _Reading(opened, hrefs, limits).document()


class _Reading:
    """Reading of a document, within its limits."""

    def __init__(self, opened: PdfDocument, hrefs: Hrefs, limits: PdfLimits) -> None:
        self._opened = opened
        self._hrefs = hrefs
        self._limits = limits
        self._is_truncated = False
        self._links: dict[str, None] = {}

    def document(self) -> PdfContent:
        """Return the content."""
        count = len(self._opened)
        text, is_cut = cut(PAGE_BREAK.join(self._pages(count)), self._limits.max_chars)
        return PdfContent(
            text=text if text.strip() else None,
            title=self._named("Title"),
            author=self._named("Author"),
            lang=_lang(self._opened),
            page_count=count,
            links=tuple(self._links),
            is_truncated=is_cut or self._is_truncated,
        )

    def _pages(self, count: int) -> Iterator[str]:
        """Yield the text of each page; take its links."""
        chars = 0
        for number in range(count):
            if number >= self._limits.max_pages or chars > self._limits.max_chars:
                self._is_truncated = True
                return
            text = self._page(number)
            chars += len(text)
            yield text

    def _page(self, number: int) -> str:
        try:
            page = self._opened.get_page(number)
        except PdfiumError:
            self._is_truncated = True
            return ""
        try:
            words = page.get_textpage()
            self._take(_annotated(self._opened, page))
            self._take(_written(words))
            text: str = words.get_text_bounded()
        except PdfiumError:
            self._is_truncated = True
            return ""
        finally:
            page.close()
        return _NOT_TEXT.sub("", text).rstrip()

    def _take(self, links: Iterator[str]) -> None:
        for link in links:
            if len(self._links) >= MOST_LINKS:
                self._is_truncated = True
                return
            if url := self._hrefs.resolve(link):
                self._links[url] = None

    def _named(self, key: str) -> str | None:
        """Return a text of the document's information."""
        value: str = self._opened.get_metadata_value(key)
        return " ".join(_NOT_TEXT.sub(" ", value[:_LONGEST_NAME]).split()) or None


def _annotated(opened: PdfDocument, page: PdfPage) -> Iterator[str]:
    """Yield the targets of a page's annotations that are addresses."""
    place, link = ctypes.c_int(0), raw.FPDF_LINK()
    while raw.FPDFLink_Enumerate(page, place, link):
        action = raw.FPDFLink_GetAction(link)
        if action and raw.FPDFAction_GetType(action) == raw.PDFACTION_URI:
            size = raw.FPDFAction_GetURIPath(opened, action, None, 0)
            if 1 < size <= _LONGEST_URL:
                buffer = ctypes.create_string_buffer(size)
                raw.FPDFAction_GetURIPath(opened, action, buffer, size)
                yield buffer.value.decode("utf-8", "replace")


def _written(words: PdfTextPage) -> Iterator[str]:
    """Yield the addresses that stand in the text of a page."""
    found = raw.FPDFLink_LoadWebLinks(words)
    try:
        for number in range(raw.FPDFLink_CountWebLinks(found)):
            size = raw.FPDFLink_GetURL(found, number, None, 0)
            if 1 < size <= _LONGEST_URL:
                buffer = (ctypes.c_ushort * size)()
                raw.FPDFLink_GetURL(found, number, buffer, size)
                yield bytes(buffer)[:-2].decode("utf-16-le", "replace")
    finally:
        raw.FPDFLink_CloseWebLinks(found)


def _lang(opened: PdfDocument) -> str | None:
    size = raw.FPDFCatalog_GetLanguage(opened, None, 0)
    if not 2 < size <= 2 * _LONGEST_LANG:
        return None
    buffer = (ctypes.c_ushort * (size // 2))()
    raw.FPDFCatalog_GetLanguage(opened, buffer, size)
    return bytes(buffer)[:-2].decode("utf-16-le", "replace").strip("\0 ") or None
