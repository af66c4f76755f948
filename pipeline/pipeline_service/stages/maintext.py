"""The stage ``text``: the main text of an HTML page, without menus and the like."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from crawlstream.errors import MissingExtra
from pipeline_service.stages.draft import Draft
from pipeline_service.stages.page import Page


class MainText:
    """Adds ``text`` by trafilatura or resiliparse; MissingExtra where that is not installed."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        try:
            self._extract = _ENGINES[options["engine"]](options)
        except ImportError as error:
            raise MissingExtra("the stage text", error.name, "extract") from error

    def run(self, page: Page, drafts: list[Draft]) -> list[Draft]:
        """Null where there is none; a field `text` that an earlier stage has made stays."""
        found = self._extract(page) if page.is_html and page.text else None
        for draft in drafts:
            draft.fields = {"text": found, **draft.fields}
        return drafts


def _trafilatura(options: Mapping[str, Any]) -> Callable[[Page], str | None]:
    from trafilatura import extract  # noqa: PLC0415  of an extra

    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    asked = {"output_format": options["format"], "fast": options["fast"]}

    def text_of(page: Page) -> str | None:
        text: str | None = extract(page.markup, url=page.response_url, **asked)
        return text

    return text_of


def _resiliparse(_: Mapping[str, Any]) -> Callable[[Page], str | None]:
    from resiliparse.extract.html2text import extract_plain_text  # noqa: PLC0415  of an extra

    extract = partial(extract_plain_text, main_content=True, alt_texts=False)
    return lambda page: extract(page.markup) or None


_ENGINES: Mapping[str, Callable[[Mapping[str, Any]], Callable[[Page], str | None]]] = {
    "trafilatura": _trafilatura,
    "resiliparse": _resiliparse,
}
