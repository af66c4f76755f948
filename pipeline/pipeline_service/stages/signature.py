"""The stage ``signature``: whether two pages say the same, whatever surrounds what they say."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from crawlstream.errors import MissingExtra
from pipeline_service.stages.draft import Draft
from pipeline_service.stages.page import Page
from pipeline_service.stages.texts import visible_text

_SHINGLE = 3
"""Words that are counted as one feature."""
_MOST_WORDS = 20_000
_WORD = re.compile(r"\w+")
_DIGITS = re.compile(r"\d+")


class Signature:
    """Adds ``signature``, and ``simhash`` if asked; MissingExtra where numpy is not installed."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._masks_digits = options["mask_digits"]
        self._has_simhash = options["simhash"]
        if self._has_simhash:
            _numpy()

    def run(self, page: Page, drafts: list[Draft]) -> list[Draft]:
        """A field that an earlier stage has made stays as it is."""
        words = visible_words(page)
        if self._masks_digits:
            words = [_DIGITS.sub("0", word) for word in words]
        made: dict[str, Any] = {"signature": digest(words)}
        if self._has_simhash:
            made["simhash"] = simhash(words)
        for draft in drafts:
            draft.fields = {**made, **draft.fields}
        return drafts


def visible_words(page: Page) -> list[str]:
    """The words that a reader of the page may see, in lower case; of any text all words."""
    return _WORD.findall(visible_text(page).lower())


def digest(words: list[str]) -> str | None:
    """``blake2b:`` and 32 hex digits; None where there are no words."""
    if not words:
        return None
    text = " ".join(words).encode("utf-8", "replace")
    return f"blake2b:{hashlib.blake2b(text, digest_size=16).hexdigest()}"


def simhash(words: list[str]) -> int | None:
    """64 bits, as a signed integer, of which pages that are nearly alike share nearly all."""
    if not words:
        return None
    numpy = _numpy()
    words = words[:_MOST_WORDS]
    ends = range(max(len(words) - _SHINGLE + 1, 1))
    shingles = (" ".join(words[at : at + _SHINGLE]).encode("utf-8", "replace") for at in ends)
    hashes = b"".join(hashlib.blake2b(each, digest_size=8).digest() for each in shingles)
    bits = numpy.unpackbits(numpy.frombuffer(hashes, numpy.uint8).reshape(-1, 8), axis=1)
    are_most = bits.sum(axis=0, dtype=numpy.int64) * 2 > len(bits)
    return int.from_bytes(numpy.packbits(are_most).tobytes(), "big", signed=True)


def _numpy() -> Any:
    try:
        import numpy  # noqa: ICN001, PLC0415  of an extra
    except ImportError as error:
        raise MissingExtra("simhash", error.name, "extract") from error
    return numpy
