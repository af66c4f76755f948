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
TDMREP, RSL = RIGHTS_FILES = ("tdmrep", "rsl")
"""Files of sites about uses of their pages."""
_BY_TDM = frozenset({Purpose.TRAIN_AI, Purpose.AI_INPUT, Purpose.MINING, Purpose.OTHER})
"""Purposes that a reservation of text and data mining is about."""


def reserves(
    purpose: str, uses: Mapping[str, str], tdm: int | None, *, refuses_all: bool = False
) -> bool:
    """Return whether a page is reserved for a purpose.

    ``uses`` maps uses to ``y`` or ``n``; ``tdm`` is 1 if text and data mining is reserved. A
    license that ``refuses_all`` uses reserves it for any purpose.
    """
    refused = refuses_all or (purpose in USES and uses.get(purpose) == "n")
    return refused or (tdm == 1 and purpose in _BY_TDM)
