"""A sketch of a text, by which texts that are nearly alike are found without comparing all.

MinHash (Broder 1997): of all sequences of some words, PERMUTATIONS functions keep the least hash
each, and two texts share as many of these as they share sequences (Jaccard). They are joined to
bands: two texts that are alike have a band in common, most others have none (Leskovec, Rajaraman
and Ullman, Mining of Massive Datasets, section 3.4).
"""

from __future__ import annotations

import re
import struct
from hashlib import blake2b

from rensa import RMinHash

PERMUTATIONS = 128
_SEED = 42
_MOST_WORDS = 20_000
_NO_SPACES = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
"""Scripts that write no spaces: Thai, Lao, Burmese, Khmer, Japanese, Chinese."""
_WORD = re.compile(rf"[{_NO_SPACES}]|[^\W{_NO_SPACES}]+")
_EXACT_BITS = 53
"""Bits of an integer that every reader of JSON keeps."""


class Sketches:
    """Makes sketches; those of other settings cannot be compared with them."""

    def __init__(self, words: int, bands: int) -> None:
        """``words`` are one sequence; ``bands`` divides PERMUTATIONS."""
        self._words = words
        self._bands = bands
        self._pack = struct.Struct(f"<{PERMUTATIONS // bands}I")

    def of(self, text: str) -> list[int] | None:
        """Return an integer of 53 bits for each band; None for a text without words."""
        words = _WORD.findall(text.lower())[:_MOST_WORDS]
        if not words:
            return None
        ends = range(max(len(words) - self._words + 1, 1))
        sketch = RMinHash(PERMUTATIONS, _SEED)
        sketch.update({" ".join(words[at : at + self._words]) for at in ends})
        least = sketch.digest()
        rows = PERMUTATIONS // self._bands
        return [self._band(least[at : at + rows]) for at in range(0, PERMUTATIONS, rows)]

    def _band(self, rows: list[int]) -> int:
        hashed = blake2b(self._pack.pack(*rows), digest_size=8).digest()
        return int.from_bytes(hashed, "big") >> (64 - _EXACT_BITS)
