"""Which proxies of a pool a site is asked through: all workers agree without a word.

Weighted rendezvous hashing (Thaler and Ravishankar 1998; Schindelhauer and Schomaker 2005): each
pair of site and proxy has a number in (0, 1) that anybody can work out, and the proxies come in the
order of weight / -ln(number). A proxy has its share of the sites by weight, and one that leaves
moves only its own sites.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from hashlib import blake2b

from crawlstream.model.egress.pools import Proxy

_REMEMBERED = 10_000
_BEST = 16
"""Proxies that are remembered of a site; a worker seldom needs more."""
_HIGHEST = 2**64


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


def ranked(proxies: Iterable[Proxy], site: str) -> Sequence[Proxy]:
    """The proxies, best first."""
    return sorted(proxies, key=lambda proxy: _place(proxy, site))


def _place(proxy: Proxy, site: str) -> float:
    digest = blake2b(f"{proxy.id} {site}".encode(), digest_size=8).digest()
    number = (int.from_bytes(digest, "big") + 1) / (_HIGHEST + 2)
    return -math.log(number) / proxy.weight
