"""Remembers which requisites this process has requested for each run."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence

from crawling.requisites.found import Requisite
from crawlstream.model.crawl import CrawlKey

Run = tuple[CrawlKey, int]
"""A crawl, and the number of its run."""
Place = tuple[Run, str]
"""A run, and the site of a page."""
_MOST_PLACES, _MOST_LEFT = 1_000, 200
"""Maximum number of sites of runs with requisites that wait for the next page; and for each."""
MOST_KNOWN = 200_000
"""Requisites of all runs together, which take about 20 MB; the oldest of the run that was used the
longest time ago are forgotten first, and requested again if a page needs them."""


class KnownRequisites:
    """URLs of requisites by run."""

    def __init__(self, most: int = MOST_KNOWN) -> None:
        self._most = most
        self._runs: OrderedDict[Run, dict[int, None]] = OrderedDict()
        self._count = 0
        self._left: OrderedDict[Place, dict[str, Requisite]] = OrderedDict()

    def add(self, run: Run, url: str) -> bool:
        """Add a URL; return whether it was unknown."""
        known = self._runs.setdefault(run, {})
        self._runs.move_to_end(run)
        name = _name_of(url)
        if name in known:
            return False
        known[name] = None
        self._count += 1
        while self._count > self._most:
            self._forget_oldest()
        return True

    def remove(self, run: Run, url: str) -> None:
        """Remove a URL whose request has failed."""
        known = self._runs.get(run, {})
        if _name_of(url) in known:
            del known[_name_of(url)]
            self._count -= 1

    def leave(self, place: Place, requisite: Requisite) -> None:
        """Leave a requisite to the next page of a site in a run."""
        left = self._left.setdefault(place, {})
        if len(left) < _MOST_LEFT:
            left[requisite.url] = requisite
        if len(self._left) > _MOST_PLACES:
            self._left.popitem(last=False)

    def take(self, place: Place) -> Sequence[Requisite]:
        """Return the requisites that were left to this page, once."""
        return list(self._left.pop(place, {}).values())

    def _forget_oldest(self) -> None:
        run, known = next(iter(self._runs.items()))
        if known:
            del known[next(iter(known))]
            self._count -= 1
        if not known:
            del self._runs[run]


def _name_of(url: str) -> int:
    return int.from_bytes(hashlib.blake2b(url.encode(), digest_size=8).digest())
