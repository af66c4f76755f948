"""Share this process' CPU: a domain with expensive pages is visited less often.

In the frontier domains take turns page by page. A page may cost hundreds of times what others do
(a decompression bomb, megabytes of markup), and its domain would take as many shares of the CPU.
So a domain rests after such a page until its share has paid for it: for as much CPU time as all
recent domains would take at its pace. It rests only while others wait, so that a crawl of one
slow site is as fast as possible.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from operator import itemgetter

from crawling.page.page import Page

FREE_S = 0.02
"""CPU time of a page without a rest afterwards: most pages take a quarter of it."""
LONGEST_REST_S = 300.0
LOOK_AGAIN_S = 30.0
"""Longest delay of a page that is given back: the others may be finished by then."""
BODY_S_PER_BYTE = 5e-9
"""CPU time per byte to receive a body and pass it on, besides its processing."""

_DOMAINS = 10_000


class Shares:
    """The domains of late, and until when they rest."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._charged_at: OrderedDict[str, float] = OrderedDict()
        self._rests_until: dict[str, float] = {}

    def charge(self, domain: str, cpu_s: float) -> None:
        """Note the time that a page of a domain took."""
        now, charged_at = self._clock(), self._charged_at
        charged_at[domain] = now
        charged_at.move_to_end(domain)
        oldest, at = next(iter(charged_at.items()))
        if at < now - LONGEST_REST_S or len(charged_at) > _DOMAINS:
            del charged_at[oldest]
            self._rests_until.pop(oldest, None)
        if cpu_s > FREE_S:
            until = max(self._rests_until.get(domain, now), now) + cpu_s * (len(charged_at) - 1)
            self._rests_until[domain] = min(until, now + LONGEST_REST_S)

    def expensive(self, pages: Sequence[Page], *, but: int) -> list[tuple[Page, float]]:
        """Return pages of domains that should rest, each with its least seconds of rest.

        The ``but`` cheapest of them stay and are not returned.
        """
        rests = [(page, self.rest_s(page.lease.domain)) for page in pages]
        expensive = sorted((pair for pair in rests if pair[1]), key=itemgetter(1))
        return [
            (page, min(rest_s, LOOK_AGAIN_S))
            for page, rest_s in expensive[max(len(expensive) - but, 0) :]
        ]

    def rest_s(self, domain: str) -> float:
        """Return the seconds for which a domain should rest; 0: it may be visited."""
        return max(self._rests_until.get(domain, 0.0) - self._clock(), 0.0)
