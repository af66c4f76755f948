"""Modes of the waste guard: how far a crawl learns which of its requests are wasted."""

from __future__ import annotations

from enum import StrEnum
from functools import cache


class GuardMode(StrEnum):
    """Use that a crawl makes of the waste guard."""

    OFF = "off"
    WATCH = "watch"
    """Results name the text signature and the canonical URL of their page, and families of URLs
    that bring nothing new are reported."""
    ON = "on"
    """Links into these families are fetched last, or left out."""


_EXTENT = tuple(GuardMode)
"""Each mode after those that do less."""


@cache
def guard_mode(wish: str | None, default: GuardMode, most: GuardMode) -> GuardMode:
    """Return the mode of a crawl: its own wish, or else the default; never more than the most.

    An unknown wish is one of a later version, which does more than this one can.
    """
    if wish is None:
        return min(default, most, key=_EXTENT.index)
    return min(GuardMode(wish), most, key=_EXTENT.index) if wish in _EXTENT else most
