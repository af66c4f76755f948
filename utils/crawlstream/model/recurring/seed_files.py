"""Files of seeds: a request may only name files in folders that the operator lists."""

from __future__ import annotations

import re
from collections.abc import Sequence

SEED_FILES = (".txt", ".jsonl", ".csv")
"""Text with a URL per line, with a JSON object per line, or a table with a header row."""

_PART = r"(?!\.{1,2}(?:/|\Z))[^/\\?#*\x00-\x1f\x7f]+"
_NAME = re.compile(rf"{_PART}(?:/{_PART})*")
"""Name of a file below a folder: no part may leave the folder or contain URL syntax."""


def place_of(url: str, stores: Sequence[str]) -> tuple[str, str] | None:
    """Return the folder that contains a file and its name there; None: none of them does."""
    for store in stores:
        folder = store.rstrip("/") + "/"
        name = url.removeprefix(folder)
        if name != url and _NAME.fullmatch(name):
            return store, name
    return None
