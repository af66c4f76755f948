"""Order of a pool's proxies for a site: all workers compute the same one without communication.

Weighted rendezvous hashing (Thaler and Ravishankar 1998; Schindelhauer and Schomaker 2005): each
pair of site and proxy has a number in (0, 1) from a hash, and the proxies are sorted by
weight / -ln(number). A proxy gets a share of the sites by its weight, and the removal of a proxy
moves only its own sites.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from hashlib import blake2b

from crawlstream.model.egress.pools import Proxy

_HIGHEST = 2**64


def ranked(proxies: Iterable[Proxy], site: str) -> Sequence[Proxy]:
    """Return the proxies, best first."""
    return sorted(proxies, key=lambda proxy: _place(proxy, site))


def _place(proxy: Proxy, site: str) -> float:
    digest = blake2b(f"{proxy.id} {site}".encode(), digest_size=8).digest()
    number = (int.from_bytes(digest, "big") + 1) / (_HIGHEST + 2)
    return -math.log(number) / proxy.weight
