"""Formats in which ``crawlstream get`` shows a page."""

from __future__ import annotations

from enum import StrEnum

from crawlstream.model.delivered import Delivered


class Format(StrEnum):
    """Forms in which a page is shown."""

    HTML = "html"
    JSON = "json"


def shown(how: Format, page: Delivered, record: bytes) -> bytes:
    """Return a page in a format, as bytes for a file; text is UTF-8."""
    if how is Format.JSON:
        return record + b"\n"
    return page.body
