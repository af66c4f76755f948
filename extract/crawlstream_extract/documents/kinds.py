"""Kinds of documents whose links can be read, by the type that their site gives and their bytes."""

from __future__ import annotations

from enum import StrEnum

PDF = frozenset({"application/pdf", "application/x-pdf"})
_OFFICE = ("application/vnd.openxmlformats-officedocument.", "application/vnd.oasis.opendocument.")
_ANY = frozenset({"", "application/octet-stream", "application/zip"})
"""Types that sites give to files that they do not know."""
_SUFFIXES = (".docx", ".xlsx", ".pptx", ".odt", ".ods", ".odp")
_ARCHIVE = b"PK\x03\x04"


class DocumentKind(StrEnum):
    """How a document is read."""

    PDF = "pdf"
    OFFICE = "office"
    """An archive of XML: Office Open XML, or OpenDocument."""


def is_pdf(mime: str, body: bytes) -> bool:
    """Return whether the site calls a body a PDF, or it begins like one."""
    return mime in PDF or body.startswith(b"%PDF-")


def kind_of(mime: str, body: bytes, url: str) -> DocumentKind | None:
    """Return the kind of a document; None if the body is none."""
    if is_pdf(mime, body):
        return DocumentKind.PDF
    if not body.startswith(_ARCHIVE):
        return None
    path = url.partition("#")[0].partition("?")[0].lower()
    is_named = mime in _ANY and path.endswith(_SUFFIXES)
    return DocumentKind.OFFICE if is_named or mime.startswith(_OFFICE) else None
