"""The order of proxies for sites, remembered: to rank a thousand takes milliseconds."""

from __future__ import annotations

from collections.abc import Sequence

from crawlstream.model.egress.pools import Pool, Proxy
from crawlstream_frontier.egress.proxy_ranking import ranked

_REMEMBERED = 10_000
_BEST = 16
"""Number of proxies remembered for a site; a worker seldom needs more."""


class Ranking:
    """The order of proxies for sites, remembered; one a version of the table."""

    def __init__(self) -> None:
        self._best: dict[tuple[str, str], Sequence[Proxy]] = {}
        self._enabled: dict[str, Sequence[Proxy]] = {}

    def enabled(self, pool: Pool) -> Sequence[Proxy]:
        """Return the proxies that the operator has enabled."""
        found = self._enabled.get(pool.name)
        if found is None:
            found = [proxy for proxy in pool.proxies if not proxy.disabled]
            self._enabled[pool.name] = found
        return found

    def best(self, pool: Pool, site: str) -> Sequence[Proxy]:
        """The first proxies of a site, at most 16."""
        key = pool.name, site
        found = self._best.get(key)
        if found is None:
            if len(self._best) >= _REMEMBERED:
                self._best.clear()
            found = self._best[key] = ranked(self.enabled(pool), site)[:_BEST]
        return found
