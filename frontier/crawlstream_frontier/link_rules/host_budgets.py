"""Links and priorities in a crawl with a host budget: pages of a domain over its budget wait lower.

``lua/includes/host_budgets.lua`` counts pages and links. Priorities are multiples of ten, but for
the lower ones, which end in 5.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from zlib import crc32

from crawlstream.model.crawl import Lease
from crawlstream.model.effects import Links
from crawlstream.model.url import domain_key, host_of

LOWER: Final = 495
"""How much lower a page waits whose domain is over its budget: almost fifty levels of depth."""
_LAST_DIGIT = 5
_LEAST = -7_395
"""Least of the lower priorities: none is one of the last band, even after retries."""
_LAST = -7_500
"""Highest priority of the last band."""
_BITS = 64
UNTRUSTED = "-"
"""Beginning of the standing of links whose page is in a domain that is not trusted."""
_TRUSTED, _OF_SEED = "+", "s"
TEXT = re.compile(rb"[0234] (?:[-+s]|[0-9]|[1-5][0-9]|6[0-3]) [0-9]{1,7} [0-9]{1,7}")
"""Text that scripts have instead of true for links that count, in a crawl with a host budget."""


def lower(priority: int) -> int:
    """Return the priority of a page over the budget of its domain."""
    return max(priority - LOWER, _LEAST)


def is_lower(priority: int) -> bool:
    """Return whether pages of a crawl with a host budget that have a priority are over it."""
    return priority > _LAST and priority % 10 == _LAST_DIGIT


def raised(priority: int) -> int:
    """Return the priority that a page had before it was put lower; others stay."""
    return priority + LOWER if is_lower(priority) else priority


class Standing:
    """Statement of a page about the domains that it links to, in a crawl with a host budget."""

    __slots__ = ("_budget", "_domain", "_own", "_to_others")

    def __init__(
        self, domain: str, budget: tuple[int, int], *, is_of_seed: bool, is_trusted: bool
    ) -> None:
        """``domain`` is that of the page, and ``is_trusted`` says so of it; or it is a seed."""
        is_trusted |= is_of_seed
        self._domain = domain
        self._budget = "{} {}".format(*budget)
        self._own = (_OF_SEED if is_of_seed else _TRUSTED) if is_trusted else UNTRUSTED
        self._to_others = str(crc32(domain.encode()) % _BITS) if is_trusted else UNTRUSTED

    @classmethod
    def of(cls, lease: Lease) -> Standing | None:
        """Return that of a page; None for crawls without a host budget."""
        entry, budget = lease.entry, lease.profile.host_budget
        if budget is None:
            return None
        domain, is_of_seed = domain_key(host_of(entry.url)), entry.origin is not None
        return cls(domain, budget, is_of_seed=is_of_seed, is_trusted=lease.is_trusted)

    def to(self, domain: str) -> str:
        """Return the text for ``Links.standing`` of links to a domain."""
        return f"{self._own if domain == self._domain else self._to_others} {self._budget}"


def in_words(noted: bytes, priorities: Sequence[int]) -> str:
    """Return what the frontier notes of a domain, "" for nothing; ``priorities``: of a page."""
    if not noted:
        return ""
    bits, kind, pages = int(noted[:16], 16), noted[16:17].decode(), int(noted[17:])
    links = bits.bit_count()
    why = (
        "it is that of a seed" if kind == _OF_SEED else f"trusted domains that link to it: {links}"
    )
    trust = "trusted" if kind == _OF_SEED or links > 1 else "not trusted"
    late = "; the page waits behind those of all domains" * any(map(is_lower, priorities))
    return f"its domain is {trust} ({why}) and has used {pages} of its host budget{late}"


def counts_of(group: Links, linked: int) -> int | str | bool:
    """Return what scripts have for ``Links.counts``."""
    if group.standing and group.counts:
        return f"{linked} {group.standing}"
    return group.counts and (linked or True)


def says_something(group: Links) -> bool:
    """Return whether links count for their domain: a trusted one, or a seed, has them."""
    return group.counts and group.standing[:1] not in ("", UNTRUSTED, _TRUSTED)
