"""The order of proxies for sites, remembered: to rank a thousand takes milliseconds."""

from __future__ import annotations

from collections.abc import Sequence

from crawlstream.model.egress.pools import Proxy
from crawlstream.model.egress.ranking import ranked

_REMEMBERED = 10_000
_BEST = 16
"""Proxies that are remembered of a site; a worker seldom needs more."""


class Ranking:
    """The order of proxies for sites, remembered; one a version of the table."""

    def __init__(self) -> None:
        self._best: dict[tuple[str, str], Sequence[Proxy]] = {}

    def best(self, pool: str, proxies: Sequence[Proxy], site: str) -> Sequence[Proxy]:
        """The first proxies of a site, at most 16."""
        key = pool, site
        found = self._best.get(key)
        if found is None:
            if len(self._best) >= _REMEMBERED:
                self._best.clear()
            found = self._best[key] = ranked(proxies, site)[:_BEST]
        return found
