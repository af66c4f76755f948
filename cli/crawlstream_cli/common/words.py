"""Counts, sizes and reasons in a sentence, for a person who knows no JSON path."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PATH = re.compile(r"^\$(?:\.|: )")
_KIND = re.compile(r" \(read as [a-z ]*\)$")


def in_words(problem: str) -> str:
    """Return ``appid: must have 3-40 characters (got 2)`` from a rejected record's sentence."""
    return _KIND.sub("", _PATH.sub("", problem))


def counted(number: int, noun: str) -> str:
    """``1 page``, ``1,200 pages``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def size(number: float) -> str:
    """``17 B``, ``3.9 MB``."""
    for unit, least in (("GB", 10**9), ("MB", 10**6), ("kB", 1000)):
        if number >= least:
            return f"{number / least:.1f} {unit}"
    return f"{number:.0f} B"


def by_reason(counts: Mapping[str, int]) -> str:
    """``dns 12, timeout 1``: the most frequent first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{reason} {count:,}" for reason, count in ordered)
