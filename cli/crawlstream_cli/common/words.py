"""Counts and problems in a sentence, for a person who knows no JSON path."""

from __future__ import annotations

import re

_PATH = re.compile(r"^\$(?:\.|: )")
_KIND = re.compile(r" \(read as [a-z ]*\)$")


def in_words(problem: str) -> str:
    """Return ``appid: must have 3-40 characters (got 2)`` from a rejected record's sentence."""
    return _KIND.sub("", _PATH.sub("", problem))


def counted(number: int, noun: str) -> str:
    """``1 page``, ``1,200 pages``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
