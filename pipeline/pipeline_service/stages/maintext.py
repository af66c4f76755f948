"""The stage ``text``: the main text of an HTML page, without menus and the like."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from crawlstream.errors import MissingExtra
from pipeline_service.stages.draft import Draft
from pipeline_service.stages.page import Page


class MainText:
    """Adds ``text`` by trafilatura; MissingExtra where that is not installed."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = {"output_format": options["format"], "fast": options["fast"]}
        try:
            from trafilatura import extract  # noqa: PLC0415  of an extra
        except ImportError as error:
            raise MissingExtra("the stage text", error.name, "extract") from error
        logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
        self._extract = extract

    def run(self, page: Page, drafts: list[Draft]) -> list[Draft]:
        """Null where there is none; a field `text` that an earlier stage has made stays."""
        found = None
        if page.is_html and page.text:
            found = self._extract(page.markup, url=page.response_url, **self._options)
        for draft in drafts:
            draft.fields = {"text": found, **draft.fields}
        return drafts
