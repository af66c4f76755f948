"""The stage ``minhash``: by which pages that say nearly the same are found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawlstream.errors import MissingExtra
from pipeline_service.stages.draft import Draft
from pipeline_service.stages.page import Page
from pipeline_service.stages.texts import text_of


class MinHash:
    """Adds ``minhash``; MissingExtra where rensa is not installed."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        try:
            from crawlstream_extract.minhash import Sketches  # noqa: PLC0415  of an extra
        except ImportError as error:
            raise MissingExtra("the stage minhash", error.name, "extract") from error
        self._sketches = Sketches(options["words"], options["bands"])
        self._of = options["of"]

    def run(self, page: Page, drafts: list[Draft]) -> list[Draft]:
        """Null where there are no words; a field that an earlier stage has made stays."""
        for draft in drafts:
            text = text_of(page, draft, self._of)
            made = None if text is None else self._sketches.of(text)
            draft.fields = {"minhash": made, **draft.fields}
        return drafts
