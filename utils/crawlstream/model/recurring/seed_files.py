"""Files of seeds: a request may name those in the operator's folders, and no others."""

from __future__ import annotations

import re
from collections.abc import Sequence

SEED_FILES = (".txt", ".jsonl", ".csv")
"""A URL a line, a JSON object a line, a table whose first row names the fields."""

_PART = r"(?!\.{1,2}(?:/|\Z))[^/\\?#*\x00-\x1f\x7f]+"
_NAME = re.compile(rf"{_PART}(?:/{_PART})*")
"""Of a file below a folder: no part leads elsewhere, nor means more than it says."""


def place_of(url: str, stores: Sequence[str]) -> tuple[str, str] | None:
    """The folder that a file is below, and its name there; None: it is below none of them."""
    for store in stores:
        folder = store.rstrip("/") + "/"
        name = url.removeprefix(folder)
        if name != url and _NAME.fullmatch(name):
            return store, name
    return None
