"""The stage ``document``: the text and the links of a PDF."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawlstream.errors import MissingExtra
from crawlstream_extract.documents.kinds import is_pdf
from crawlstream_extract.hrefs import Hrefs
from pipeline_service.stages.draft import Draft
from pipeline_service.stages.page import Page

FIELDS = (
    *("text", "title", "author", "lang", "page_count", "document_links", "document_truncated"),
    "document_error",
)


class Documents:
    """Adds FIELDS; MissingExtra where pypdfium2 is not installed."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        try:
            from crawlstream_extract import pdf  # noqa: PLC0415  of an extra
        except ImportError as error:
            raise MissingExtra("the stage document", error.name, "extract") from error
        self._reader = pdf
        self._limits = pdf.PdfLimits(**options)

    def run(self, page: Page, drafts: list[Draft]) -> list[Draft]:
        """Null where a page is not a PDF; a field that an earlier stage has filled stays."""
        made = self._made(page)
        for draft in drafts:
            empty = {name: made[name] for name in made if draft.fields.get(name) is None}
            draft.fields = {**draft.fields, **empty}
        return drafts

    def _made(self, page: Page) -> Mapping[str, Any]:
        if not is_pdf(page.mime, page.body):
            return dict.fromkeys(FIELDS)
        hrefs = Hrefs(page.response_url, "utf-8")
        found = self._reader.content_of(page.body, hrefs, self._limits)
        told = (found.text, found.title, found.author, found.lang, found.page_count)
        is_truncated = found.is_truncated or page.body_truncated or page.is_incomplete
        return dict(zip(FIELDS, (*told, list(found.links), is_truncated, found.error), strict=True))
