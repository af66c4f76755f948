"""The stage ``language``: the language of the text, whatever the page declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawlstream.errors import MissingExtra
from pipeline_service.stages.draft import Draft
from pipeline_service.stages.page import Page
from pipeline_service.stages.texts import text_of


class Language:
    """Adds ``language`` and ``language_score``; MissingExtra where py3langid is not installed.

    The model is loaded here, before the worker gets a page.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        try:
            from crawlstream_extract.language import LanguageModel  # noqa: PLC0415  of an extra
        except ImportError as error:
            raise MissingExtra("the stage language", error.name, "extract") from error
        self._languages = LanguageModel(options["languages"], options["least"])
        self._of = options["of"]

    def run(self, page: Page, drafts: list[Draft]) -> list[Draft]:
        """Null where there is no text; a field that an earlier stage has made stays."""
        for draft in drafts:
            text = text_of(page, draft, self._of)
            code, score = (None, None) if text is None else self._languages.of(text)
            draft.fields = {"language": code, "language_score": score, **draft.fields}
        return drafts
