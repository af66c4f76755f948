"""The stage ``page``: what an HTML page says of itself in its head, and as JSON-LD."""

from __future__ import annotations

from crawlstream_extract.metadata import FIELDS, metadata
from pipeline_service.stages.draft import Draft
from pipeline_service.stages.page import Page


class Metadata:
    """Adds ``title``, ``description``, ``canonical``, ``lang``, ``robots``, OpenGraph, JSON-LD."""

    def run(self, page: Page, drafts: list[Draft]) -> list[Draft]:
        """A field that an earlier stage has made stays as it is."""
        made = dict.fromkeys(FIELDS)
        if page.is_html:
            made = metadata(page.select.root, page.response_url)
        for draft in drafts:
            draft.fields = {**made, **draft.fields}
        return drafts
