"""How often Python looks for garbage in cycles; what is in none is freed at once, as ever."""

from __future__ import annotations

import gc

OBJECTS_A_LOOK = 20_000
"""A look comes when so many objects have: some ten pages' worth. At Python's own 700 it took a
quarter of a crawler's CPU time, and a tenth of a kafka-monitor's."""
LOOKS_AN_AGE = 20


def collect_seldom() -> None:
    """Look for garbage less often, and never again at what is there already."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS_A_LOOK, LOOKS_AN_AGE, LOOKS_AN_AGE)
