"""Counts and problems in a sentence, for a person who knows no JSON path."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_PATH = re.compile(r"^\$(?:\.|: )")
_KIND = re.compile(r" \(read as [a-z ]*\)$")


def in_words(problem: str) -> str:
    """Return ``appid: must have 3-40 characters (got 2)`` from a rejected record's sentence."""
    return _KIND.sub("", _PATH.sub("", problem))


def counted(number: int, noun: str) -> str:
    """``1 page``, ``1,200 pages``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


_FAMILIES = 5


def of_families(families: Sequence[Mapping[str, Any]]) -> str:
    """Return ``?sort of a.example 1,200, host of b.example 3``: what the waste guard refused."""
    named = [f"{one['family']} of {one['site']} {one['count']:,}" for one in families[:_FAMILIES]]
    more = len(families) - len(named)
    return ", ".join(named) + (f", and {more} more" if more else "")
