"""The stage ``where``: pages and items that are wanted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pipeline_service.spec.where import Where
from pipeline_service.stages.draft import Draft, Filtered
from pipeline_service.stages.function import load
from pipeline_service.stages.page import Page, with_fields

BY_FUNCTION, BY_LANGUAGE = "where.python", "where.language"
OF_ROWS = ("python", "language")
"""Keys that ask for something of a row, and not of its page."""


class Filter:
    """Asks what the pipeline's own ``where`` asks, for languages, and a function of the user."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        rest = {key: options[key] for key in options if key not in OF_ROWS}
        self._where = Where.read(rest, "where")
        self._languages = options.get("language")
        self._is_wanted: Callable[[Page], object] | None = None
        if "python" in options:
            self._is_wanted = load(options["python"])

    def run(self, page: Page, drafts: list[Draft]) -> list[Draft]:
        """Return the wanted drafts."""
        if reason := self._where.refuses(page):
            raise Filtered(reason)
        if self._languages is not None:
            drafts = [each for each in drafts if each.fields.get("language") in self._languages]
            if not drafts:
                raise Filtered(BY_LANGUAGE)
        if self._is_wanted is not None:
            drafts = [draft for draft in drafts if self._asked(page, draft)]
        if not drafts:
            raise Filtered(BY_FUNCTION)
        return drafts

    def _asked(self, page: Page, draft: Draft) -> bool:
        assert self._is_wanted is not None
        seen = with_fields(page, draft.fields) if draft.fields else page
        return bool(self._is_wanted(seen))
