"""Purposes of crawls, and whether a site reserves its pages for a purpose."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Purpose(StrEnum):
    """Use that a crawl is for."""

    SEARCH = "search"
    TRAIN_AI = "train-ai"
    AI_INPUT = "ai-input"
    MINING = "mining"
    ARCHIVE = "archive"
    RESEARCH = "research"
    OTHER = "other"


USES = (Purpose.SEARCH.value, Purpose.TRAIN_AI.value, Purpose.AI_INPUT.value)
"""Uses that a site can allow or refuse."""
_BY_TDM = frozenset({Purpose.TRAIN_AI, Purpose.AI_INPUT, Purpose.MINING, Purpose.OTHER})
"""Purposes that a reservation of text and data mining is about."""


def reserves(purpose: str, uses: Mapping[str, str], tdm: int | None) -> bool:
    """Return whether a page is reserved for a purpose.

    ``uses`` maps uses to ``y`` or ``n``; ``tdm`` is 1 if text and data mining is reserved.
    """
    return (purpose in USES and uses.get(purpose) == "n") or (tdm == 1 and purpose in _BY_TDM)
