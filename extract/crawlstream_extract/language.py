"""The language of a text, by py3langid: a model in memory, which no process loads that needs none.

The model is of 140 languages. Its probabilities depend on the length of the text: names, menus and
numbers have no likely language.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import cache

from py3langid.langid import MODEL_FILE, LanguageIdentifier

from crawlstream.errors import ConfigError

UNKNOWN = "und"
"""ISO 639-2's code of a language that is not determined."""
MOST_CHARS = 4_000
"""Characters of a text that are read."""
_NO_LANGUAGE = "zxx"
_ADDRESSES = re.compile(r"\]\([^()\s]{1,2000}\)|https?://\S{1,2000}")
"""Addresses, also those of links in Markdown."""


class LanguageModel:
    """The model, and the languages that a text may have.

    The first one of a process takes 0.7 s to load, and 100 MB.
    """

    def __init__(self, codes: Collection[str] = (), least: float = 0.5) -> None:
        """``codes``: the only languages that are named; empty: all. ConfigError for another."""
        self._model = _model()
        known: Sequence[str] = sorted(set(self._model.labels) - {_NO_LANGUAGE})
        if unknown := sorted(set(codes) - set(known)):
            told = ", ".join(known)
            raise ConfigError(f"the model does not know the language {unknown[0]!r}; known: {told}")
        self._codes = frozenset(codes or known)
        self._least = least

    def of(self, text: str) -> tuple[str, float]:
        """Return the likeliest language of a text, and its probability.

        The code is that of ISO 639-1, or of ISO 639-3 where there is none; UNKNOWN for a language
        whose probability is below ``least``, or that is not one of the ``codes``.
        """
        text = _ADDRESSES.sub(" ", text[: 2 * MOST_CHARS])[:MOST_CHARS]
        if not text.strip():
            return UNKNOWN, 0.0
        code, score = self._model.rank(text)[0]
        is_named = score >= self._least and code in self._codes
        return (code if is_named else UNKNOWN), round(score, 4)


@cache
def _model() -> LanguageIdentifier:
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
