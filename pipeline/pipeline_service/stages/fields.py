"""The stages ``fields`` and ``clean``: which fields a row has, and tidy texts in them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from pipeline_service.stages.draft import Draft
from pipeline_service.stages.page import Page

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u200b\u2060\ufeff\ufffe\uffff]")
_BLANKS = re.compile(r"[^\S\n]+")
_AROUND_BREAKS = re.compile(r" ?\n ?")
_MANY_BREAKS = re.compile(r"\n{3,}")


class Fields:
    """Keeps, drops, and renames, in this order; the page's own columns likewise (`shape`)."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options

    def run(self, page: Page, drafts: list[Draft]) -> list[Draft]:
        """Nothing ends here."""
        for draft in drafts:
            kept = kept_names(list(draft.fields), self._options)
            draft.fields = {new: draft.fields[old] for old, new in kept.items()}
        return drafts


def kept_names(names: list[str], options: Mapping[str, Any]) -> dict[str, str]:
    """The names that stay, and how each is called then."""
    renamed = options.get("rename", {})
    kept = [name for name in names if name in options.get("keep", names)]
    kept = [name for name in kept if name not in options.get("drop", ())]
    taken = {renamed[name] for name in kept if name in renamed}
    return {name: renamed.get(name, name) for name in kept if name in renamed or name not in taken}


class Clean:
    """Normalises the texts of all fields, nested ones too."""

    def run(self, page: Page, drafts: list[Draft]) -> list[Draft]:
        """Nothing ends here."""
        for draft in drafts:
            draft.fields = {name: cleaned(value) for name, value in draft.fields.items()}
        return drafts


def cleaned(value: Any) -> Any:
    """NFC, without control and invisible characters; blanks are one, empty lines one at most."""
    if isinstance(value, str):
        text = _CONTROL.sub("", unicodedata.normalize("NFC", value).replace("\r\n", "\n"))
        text = _AROUND_BREAKS.sub("\n", _BLANKS.sub(" ", text))
        return _MANY_BREAKS.sub("\n\n", text).strip()
    if isinstance(value, list):
        return [cleaned(each) for each in value]
    if isinstance(value, dict):
        return {name: cleaned(each) for name, each in value.items()}
    return value
