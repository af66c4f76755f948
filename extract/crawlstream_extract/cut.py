"""Texts within a limit."""

from __future__ import annotations

import re

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)


def cut(text: str, most: int) -> tuple[str, bool]:
    """Return a text of at most ``most`` characters, cut at a block's end, and whether it was cut.

    A single longer block is cut at the end of a line, or of a word, or anywhere.
    """
    if len(text) <= most:
        return text, False
    for mark in ("\n\n", "\n", " "):
        if (end := text.rfind(mark, 0, most + 1)) > most // 2:
            return text[:end].rstrip(), True
    return text[:most].rstrip(), True


def cut_markdown(text: str, most: int) -> tuple[str, bool]:
    """Return the same of Markdown; a block of code that is cut is closed."""
    found, is_cut = cut(text, most)
    if is_cut and (fence := _open_fence(found)):
        found, _ = cut(text, most - len(fence) - 1)
        if fence := _open_fence(found):
            found = f"{found}\n{fence}"
    return found, is_cut


def _open_fence(text: str) -> str:
    """Return the fence of the block of code in which a text ends; empty if it does not."""
    fence = ""
    for each in _FENCE.finditer(text):
        if not fence:
            fence = each[1]
        elif each[1].startswith(fence):
            fence = ""
    return fence
