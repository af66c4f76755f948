"""PDFs: what is read of them, and what is not."""

from __future__ import annotations

from pathlib import Path

import pypdfium2_raw
import pytest
from pypdfium2 import PDFIUM_INFO

from crawlstream_extract import pdf as reader
from crawlstream_extract.documents.kinds import is_pdf
from crawlstream_extract.hrefs import Hrefs
from crawlstream_extract.pdf import PdfContent, PdfLimits, content_of
from support.hostile.documents import encrypted, pdf

PLACE = Hrefs("http://127.0.0.7:8080/papers/lamp.pdf", "utf-8")


def read(body: bytes, **limits: int) -> PdfContent:
    """Return the content of a document."""
    return content_of(body, PLACE, PdfLimits(**limits))


def test_a_document_has_text_information_and_links() -> None:
    """Reads pages in their order, joins words at hyphens, and resolves addresses."""
    found = read(
        pdf(
            "About a lamp, see http://text.example.com/x\nMade of brass, it is heavy-\nweight.",
            "",
            "The third page",
            links=["https://a.example.com/?b=c", "more.html", "https://a.example.com/?b=c"],
            title="A  lamp",
            author="Me",
            lang="en-GB",
        )
    )
    assert found == PdfContent(
        text="About a lamp, see http://text.example.com/x\n"
        "Made of brass, it is heavyweight.\n\f\n\fThe third page",
        title="A lamp",
        author="Me",
        lang="en-GB",
        page_count=3,
        links=(
            "https://a.example.com/?b=c",
            "http://127.0.0.7:8080/papers/more.html",
            "http://text.example.com/x",
        ),
    )


def test_links_that_lead_to_no_site_are_left_out() -> None:
    """Takes links of the web only."""
    links = ["javascript:x()", "mailto:a@b.example", "file:///etc/passwd", "http://[x", "", "#a"]
    assert read(pdf("a", links=links)).links == ("http://127.0.0.7:8080/papers/lamp.pdf#a",)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", "unreadable"),
        (b"<html><body>Not found", "unreadable"),
        (b"%PDF-1.7\n" + bytes(range(256)) * 20, "unreadable"),
        (pdf("a page")[:300], "unreadable"),
        (pdf(), "unreadable"),
        (encrypted(), "encrypted"),
    ],
    ids=["empty", "HTML", "garbage", "cut", "no page", "encrypted"],
)
def test_what_cannot_be_read_has_a_reason(body: bytes, error: str) -> None:
    """Returns nothing but the reason."""
    assert read(body) == PdfContent(error=error)


def test_a_document_is_cut_at_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads no page behind the last one that is needed, and reports that text is missing."""
    whole = pdf("one " * 5, "two " * 5, "three " * 5)
    assert not read(whole, max_pages=3).is_truncated
    found = read(whole, max_pages=2)
    assert (found.text, found.is_truncated) == ("one one one one one\n\ftwo two two two two", True)
    found = read(whole, max_chars=25)
    assert (found.text, found.is_truncated) == ("one one one one one", True)
    assert found.page_count == 3
    monkeypatch.setattr(reader, "MOST_LINKS", 2)
    found = read(pdf("a", links=[f"/{n}" for n in range(5)]))
    assert (len(found.links), found.is_truncated) == (2, True)


def test_a_page_that_is_missing_is_no_end() -> None:
    """Reads the other pages, and reports that text is missing."""
    broken = pdf("one", "two", "three").replace(b"5 0 R 7 0 R 9 0 R", b"5 0 R 99 0 R 9 0 R")
    found = read(broken)
    assert (found.text, found.is_truncated) == ("one\n\f\n\fthree", True)


def test_pdfs_are_known_by_their_type_and_their_beginning() -> None:
    """Takes no other body for one."""
    for mime, body, expected in (
        ("application/pdf", b"", True),
        ("application/octet-stream", b"%PDF-1.4", True),
        ("", b"%PDF-1.4", True),
        ("text/html", b"<p>%PDF-1.4", False),
    ):
        assert is_pdf(mime, body) is expected


def test_the_library_runs_no_code_of_documents() -> None:
    """PDFium is built without JavaScript and without XFA."""
    assert not PDFIUM_INFO.flags
    (library,) = (
        path
        for path in Path(pypdfium2_raw.__file__).parent.iterdir()
        if path.name in ("libpdfium.so", "libpdfium.dylib", "pdfium.dll")
    )
    code = library.read_bytes()
    assert b"FPDFText_GetBoundedText" in code
    assert not [name for name in (b"v8::", b"XFA_", b"GetRecommendedV8Flags") if name in code]
