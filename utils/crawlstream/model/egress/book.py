"""What the cluster knows of its proxies, and what a worker tells of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

ALL_SITES = "*"
"""Stands for the site where something holds for all of them."""

REFUSED = -1
"""Instead of a number of steps: the site has refused the proxy, so the rest does not grow."""

NewsKind = Literal["o", "r", "b", "s", "a"]
"""Out; rests; banned; found no way to a site; the site answers."""


@dataclass(slots=True, kw_only=True)
class ProxyOutcome:
    """What came of the requests through one proxy since it was told last."""

    answers: int = 0
    refused: int = 0
    """Of the answers."""
    path: int = 0
    """Times that no way from it to a site was found."""
    failed: int = 0
    """Times that it has failed, surely."""
    in_row: int = 0
    """Of these, those since its last answer."""
    is_sure: bool = False
    """Whether one of those will not pass by itself."""
    total_ms: float = 0.0
    """Of all answers."""
    through: list[str] = field(default_factory=list)
    """Sites that it came through to: the last two, the latest at the end."""
    lost: list[str] = field(default_factory=list)
    """Sites that it found no way to since its last answer."""


@dataclass(frozen=True, slots=True)
class ProxyRest:
    """A proxy leaves a site alone."""

    proxy: str
    site: str
    ms: int
    """For so long; 0: it does not, but it found no way."""
    steps: int
    """How often in a row it found no way before; :data:`REFUSED`: that is not why."""


@dataclass(frozen=True, slots=True)
class ProxyUse:
    """Requests to one site through one proxy of a pool that rotates."""

    proxy: str
    site: str
    requests: int
    most: int
    """After so many, by all workers together, it rests there."""
    rest_ms: int


@dataclass(frozen=True, slots=True)
class ProxyBan:
    """A person's word that a proxy is not to be used for a site, or for :data:`ALL_SITES`."""

    proxy: str
    site: str
    ms: int
    """For so long; 0: from now on it may."""


@dataclass(frozen=True, slots=True)
class PoolSpend:
    """What a pool has used up of its budget."""

    requests: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyReport:
    """All that one call tells."""

    outcomes: Mapping[str, ProxyOutcome] = field(default_factory=dict)
    """By the id of the proxy."""
    rests: Sequence[ProxyRest] = ()
    answers: Sequence[tuple[str, str]] = ()
    """Proxy and site: it came through where it rested, or others had found no way."""
    uses: Sequence[ProxyUse] = ()
    spends: Mapping[str, PoolSpend] = field(default_factory=dict)
    """By pool, of all that have a budget."""
    bans: Sequence[ProxyBan] = ()


@dataclass(frozen=True, slots=True)
class ProxyNews:
    """One thing that became known of a proxy or a site."""

    kind: NewsKind
    proxy: str
    site: str
    left_s: float
    """For how long it holds from now; at most 0: no more."""
    number: int
    """Times out, or steps of a rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BookAnswer:
    """What the cluster answers."""

    news: Sequence[ProxyNews] = ()
    is_more: bool = False
    """Whether there is more news than one call may tell."""
    workers: int = 0
    """That use proxies."""
    place: int = 0
    """How many of those come before this one."""
    day: int = 0
    """Days since the epoch, in UTC."""
    spent: Mapping[str, PoolSpend] = field(default_factory=dict)
    """On that day, by pool, of those that the report named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyHealth:
    """What is known of one proxy."""

    score: float = 1.0
    """Between 0 and 1: how well its last twenty or so requests went."""
    answers: int = 0
    refused: int = 0
    path: int = 0
    failed: int = 0
    mean_ms: float = 0.0
    """To an answer."""
    in_row: int = 0
    """Sure failures since the last answer."""
    times_out: int = 0
    """In a row."""
