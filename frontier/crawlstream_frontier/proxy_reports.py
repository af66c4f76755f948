"""State of the proxies in the cluster, and the reports of workers on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

ALL_SITES = "*"
"""Name in place of a site that means all sites."""

REFUSED = -1
"""Value instead of a number of steps: the site refused the proxy, so the rest does not grow."""

NewsKind = Literal["o", "r", "b", "s", "a"]
"""``o``: out. ``r``: rests for a site. ``b``: banned. ``s``: no proxy reaches the site.
``a``: the site answers."""


@dataclass(slots=True, kw_only=True)
class ProxyOutcome:
    """Outcomes of the requests through one proxy since the last report."""

    answers: int = 0
    refused: int = 0
    """Answers that were refusals."""
    path: int = 0
    """Failures on the path from the proxy to a site."""
    failed: int = 0
    """Failures that are certainly the proxy's own."""
    in_row: int = 0
    """Consecutive failures of its own since its last answer."""
    is_sure: bool = False
    """True if one of these failures is permanent."""
    total_ms: float = 0.0
    """Total time to all answers."""
    through: list[str] = field(default_factory=list)
    """Last two sites that answered through it, the latest at the end."""
    lost: list[str] = field(default_factory=list)
    """Sites to which its path failed since its last answer."""


@dataclass(frozen=True, slots=True)
class ProxyRest:
    """Rest of a proxy for a site."""

    proxy: str
    site: str
    ms: int
    """Duration; 0: it does not rest, but its path to the site failed."""
    steps: int
    """Consecutive path failures before; :data:`REFUSED`: the site refused it instead."""


@dataclass(frozen=True, slots=True)
class ProxyUse:
    """Requests to a site through a proxy of a rotating pool."""

    proxy: str
    site: str
    requests: int
    most: int
    """Number of requests by all workers together after which it rests for the site."""
    rest_ms: int


@dataclass(frozen=True, slots=True)
class ProxyBan:
    """Ban of a proxy by an operator, for a site or for :data:`ALL_SITES`."""

    proxy: str
    site: str
    ms: int
    """Duration; 0: the ban ends now."""


@dataclass(frozen=True, slots=True)
class PoolSpend:
    """Part of a pool's budget that is used up."""

    requests: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyReport:
    """Report of a worker in one call."""

    outcomes: Mapping[str, ProxyOutcome] = field(default_factory=dict)
    """Outcomes by the id of the proxy."""
    rests: Sequence[ProxyRest] = ()
    answers: Sequence[tuple[str, str]] = ()
    """Proxy and site that answered through it although it rested or others had failed."""
    uses: Sequence[ProxyUse] = ()
    spends: Mapping[str, PoolSpend] = field(default_factory=dict)
    """Spending by pool, for pools with a budget."""
    bans: Sequence[ProxyBan] = ()


@dataclass(frozen=True, slots=True)
class ProxyNews:
    """Change in the state of a proxy or a site."""

    kind: NewsKind
    proxy: str
    site: str
    left_s: float
    """Seconds for which it remains valid; at most 0: no longer."""
    number: int
    """Number of times the proxy was out, or steps of a rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BookAnswer:
    """Answer of the cluster to a report."""

    news: Sequence[ProxyNews] = ()
    is_more: bool = False
    """True if there is more news than one call may return."""
    workers: int = 0
    """Number of workers that use proxies."""
    place: int = 0
    """Number of these workers that precede this one."""
    day: int = 0
    """Days since the epoch, in UTC."""
    spent: Mapping[str, PoolSpend] = field(default_factory=dict)
    """Spending of that day by pool, for the pools in the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyHealth:
    """Health of one proxy."""

    score: float = 1.0
    """Success of its last twenty or so requests, between 0 and 1."""
    answers: int = 0
    refused: int = 0
    path: int = 0
    failed: int = 0
    mean_ms: float = 0.0
    """Mean time to an answer."""
    in_row: int = 0
    """Failures that are certainly its own since its last answer."""
    times_out: int = 0
    """Consecutive times it was out."""
