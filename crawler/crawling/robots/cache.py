"""Files of sites that this process goes by, no more of them than it can bear."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

MOST_FILES = 20_000
MOST_CHARACTERS = 4 << 20
"""Characters of all files together: two thousand usual ones. Parsed, they take up to thirty times
their size, and is parsed again for the next page of a host whose file had to go."""


class Sized(Protocol):
    """Rules of a file."""

    @property
    def size(self) -> int:
        """Memory that they take, in characters of an ordinary file."""
        ...


Rules = TypeVar("Rules", bound=Sized)


@dataclass(frozen=True, slots=True)
class _Known(Generic[Rules]):
    rules: Rules | None
    until: float

    @property
    def characters(self) -> int:
        return self.rules.size if self.rules else 0


class KnownFiles(Generic[Rules]):
    """Rules by origin, until they are too old; the least recently used ones make room first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._files: OrderedDict[str, _Known[Rules]] = OrderedDict()
        self._characters = 0

    def __contains__(self, origin: str) -> bool:
        """Return whether it is known what holds there."""
        known = self._files.get(origin)
        return known is not None and known.until >= self._clock()

    def __getitem__(self, origin: str) -> Rules | None:
        """The rules; without any everything is allowed. KeyError: nothing is known."""
        self._files.move_to_end(origin)
        return self._files[origin].rules

    def put(self, origin: str, rules: Rules | None, left_s: float) -> Rules | None:
        """Take over what holds for some seconds; a single file may be as large as it is."""
        known = _Known(rules, self._clock() + left_s)
        self._forget(origin)
        self._files[origin] = known
        self._characters += known.characters
        while len(self._files) > 1 and (
            len(self._files) > MOST_FILES or self._characters > MOST_CHARACTERS
        ):
            self._forget(next(iter(self._files)))
        return rules

    def _forget(self, origin: str) -> None:
        known = self._files.pop(origin, None)
        if known is not None:
            self._characters -= known.characters
