"""How memory is given back: how often Python looks for garbage, and what the system gets again.

Only garbage in cycles has to be looked for; what is in none is freed at once, as ever.
"""

from __future__ import annotations

import ctypes
import gc

OBJECTS_A_LOOK = 20_000
"""Number of new objects, about ten pages' worth, after which a collection runs.

With Python's own 700, collections took a quarter of a crawler's CPU time, and a tenth of a
kafka-monitor's.
"""
LOOKS_AN_AGE = 20

LARGE_BLOCK = 1 << 20
"""Bytes; what most pages take is in smaller ones, which are handed out again without the system."""
_KEPT_AT_THE_TOP = 16 << 20
_HEAPS = 2
"""glibc's own number grows with the cores, and each keeps what its threads have freed."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""As ``malloc.h`` of glibc has them."""


def collect_seldom() -> None:
    """Look for garbage less often, and never again at what is there already."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS_A_LOOK, LOOKS_AN_AGE, LOOKS_AN_AGE)


def return_large_blocks() -> None:
    """Let the system have large blocks again as soon as they are freed.

    glibc would take the size of those that it has seen for ordinary, up to 32 MiB, and keep them
    to hand them out in pieces: a crawler that had met large bodies took 780 MiB for 150 in use.
    Nothing is to be said to other C libraries.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_AT_THE_TOP)
        mallopt(_M_ARENA_MAX, _HEAPS)
