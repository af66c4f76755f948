"""Office documents: the links that are read of them, and the bounds."""

from __future__ import annotations

import pytest

from crawlstream_extract.documents import office
from crawlstream_extract.documents.kinds import DocumentKind, kind_of
from crawlstream_extract.documents.office import OfficeLinks, links_of_office
from crawlstream_extract.hrefs import Hrefs
from support.hostile.office import RELS, archive, docx, odt, relationships

PLACE = Hrefs("http://127.0.0.7:8080/papers/lamp.docx", "utf-8")
WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
LINKS = ["https://a.example.com/?b=c&d=e", "more.html", "mailto:a@b.example", "file:///etc/passwd"]
FOUND = ["https://a.example.com/?b=c&d=e", "http://127.0.0.7:8080/papers/more.html"]


def read(body: bytes) -> OfficeLinks:
    """Return the links of a document."""
    return links_of_office(body, PLACE)


@pytest.mark.parametrize("body", [docx(*LINKS, LINKS[0]), odt([*LINKS, LINKS[0]])])
def test_a_document_has_links(body: bytes) -> None:
    """Reads links to the web, each once, without pictures, styles and other relationships."""
    found = read(body)
    assert (list(found.links), found.is_truncated, found.error) == (FOUND, False, None)


def test_links_of_all_parts_are_read() -> None:
    """Reads each slide or sheet of a document."""
    slides = {
        f"ppt/slides/_rels/{n}.xml.rels": relationships(f"http://a.example.com/{n}")
        for n in range(3)
    }
    assert list(read(archive(slides)).links) == [f"http://a.example.com/{n}" for n in range(3)]


@pytest.mark.parametrize(
    "body",
    [b"", b"PK\x03\x04", b"PK\x03\x04" + b"x" * 500, docx("http://a.example/")[:-40]],
)
def test_a_broken_document_is_unreadable(body: bytes) -> None:
    """Reports an error and has no links."""
    assert read(body) == OfficeLinks(error=office.UNREADABLE)


def test_a_document_with_a_damaged_part_is_unreadable() -> None:
    """Reports an error if a part does not unpack."""
    whole = archive({RELS: relationships(*(f"http://a.example/{n}" for n in range(500)))})
    middle = len(whole) // 3
    broken = whole[:middle] + b"\xff" * 40 + whole[middle + 40 :]
    assert read(broken).error == office.UNREADABLE


def test_a_document_that_needs_a_password_is_encrypted() -> None:
    """Reports an error if a part is encrypted."""
    locked = bytearray(archive({RELS: relationships("http://a.example/")}))
    locked[6] |= 1
    locked[locked.index(b"PK\x01\x02") + 8] |= 1
    assert read(bytes(locked)).error == office.ENCRYPTED


def test_links_and_bytes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads up to the bounds, and reports that links are missing."""
    many = docx(*(f"http://a.example/{n}" for n in range(office.MOST_LINKS + 1)))
    found = read(many)
    assert (len(found.links), found.is_truncated) == (office.MOST_LINKS, True)
    bomb = archive({RELS: b" " * (office.MOST_BYTES + 1), "b.rels": relationships("http://a/")})
    found = read(bomb)
    assert (list(found.links), found.is_truncated) == ([], True)
    monkeypatch.setattr(office, "MOST_FILES", 1)
    found = read(archive({"a.rels": relationships("http://a/"), "b.rels": ""}))
    assert (list(found.links), found.is_truncated) == (["http://a/"], True)


@pytest.mark.parametrize(
    ("mime", "url", "kind"),
    [
        (WORD, "http://a/x", DocumentKind.OFFICE),
        ("application/vnd.oasis.opendocument.text", "http://a/x", DocumentKind.OFFICE),
        ("application/octet-stream", "http://a/x.DOCX?a=b", DocumentKind.OFFICE),
        ("application/octet-stream", "http://a/x.zip", None),
        ("text/html", "http://a/x.docx", None),
    ],
)
def test_an_archive_is_a_document_by_its_type(
    mime: str, url: str, kind: DocumentKind | None
) -> None:
    """Uses the name only if the site knows no type; ignores other bodies."""
    assert kind_of(mime, docx(), url) is kind
    assert kind_of(mime, b"<html>", url) is None
