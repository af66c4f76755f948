"""The stage ``markdown``: an HTML page as Markdown without active content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawlstream_extract.cut import cut_markdown
from crawlstream_extract.hrefs import Hrefs
from crawlstream_extract.markdown import MarkdownOptions, markdown_of
from crawlstream_extract.markup import beginning
from crawlstream_extract.page_links import base_of
from pipeline_service.stages.draft import Draft
from pipeline_service.stages.page import Page

FIELDS = ("markdown", "markdown_engine", "markdown_truncated")


class Markdown:
    """Adds ``markdown``, the engine that has made it, and whether its end is left out."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._most = options["max_chars"]
        self._options = MarkdownOptions(
            main=options["main"],
            links=options["links"],
            images=options["images"],
            hidden=options["hidden"],
        )

    def run(self, page: Page, drafts: list[Draft]) -> list[Draft]:
        """Null where a page is not HTML; a field that an earlier stage has made stays."""
        made = dict(zip(FIELDS, self._made(page), strict=True))
        for draft in drafts:
            draft.fields = {**made, **draft.fields}
        return drafts

    def _made(self, page: Page) -> tuple[str | None, str | None, bool | None]:
        if not page.is_html or not page.text:
            return None, None, None
        markup, is_whole = beginning(page.text)
        hrefs = Hrefs(base_of(page.select.root, page.response_url), page.encoding or "utf-8")
        text, engine = markdown_of(markup, hrefs, self._options)
        text, is_cut = cut_markdown(text, self._most)
        return text, engine, is_cut or not is_whole
