"""Estimate of the cost of a client's regular expression before it is compiled.

Python's compiler is fast except for sets: it iterates over their ranges character by character, and
builds a map of a whole plane for characters beyond Latin-1. A request has room for thousands of
sets.
"""

from __future__ import annotations

import re
import warnings
from functools import lru_cache
from re import _constants, _parser  # type: ignore[attr-defined]  # no public API lists sets
from typing import Any

MOST = 1 << 21
"""Maximum characters in the sets of a request; about 0.2 s of CPU."""

_PLANE = 1 << 16
"""Size of a range that the compiler does not expand further."""
_MAP = 1_200
"""Number of characters that take as long as one map."""
_LATIN = 256


@lru_cache(maxsize=4096)
def characters(expression: str) -> int:
    """Return about how many characters the compiler iterates over; 0 for invalid expressions."""
    if "[" not in expression and "|" not in expression:
        return 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parsed = _parser.parse(expression)
    except (re.error, ValueError, OverflowError, RecursionError):
        return 0
    total, left = 0, [parsed]
    while left:
        node: Any = left.pop()
        if isinstance(node, tuple) and node and node[0] is _constants.IN:
            total += sum(_walked(member) for member in node[1])
        elif isinstance(node, tuple | list | _parser.SubPattern):
            left.extend(node)
    return total


def _walked(member: Any) -> int:
    kind, value = member
    if kind is _constants.RANGE:
        first, last = map(int, value)
        return min(last, _PLANE) - min(first, _PLANE) + (_MAP if last >= _LATIN else 0)
    return _MAP if kind is _constants.LITERAL and value >= _LATIN else 0
