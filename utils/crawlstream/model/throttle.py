"""The rules of politeness as values. ZooKeeper holds them, the frontier applies them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

DEFAULT_CONCURRENCY = 8
"""Requests under way at once to one domain, from lease to response, unless its rule says else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleRule:
    """At most ``int(hits * scale)`` requests to a domain in any ``window_s`` seconds.

    Moderated rules space the requests evenly; others allow bursts within the window.
    An effective allowance of 0 holds the domain back until the rule changes.
    """

    hits: int
    window_s: float
    scale: float = 1.0
    moderated: bool = True
    concurrency: int = DEFAULT_CONCURRENCY

    @property
    def effective_hits(self) -> int:
        """Requests allowed in one window."""
        return int(self.hits * min(max(self.scale, 0.0), 1.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleTable:
    """All rules at one version of the ZooKeeper node; immutable, replaced as a whole."""

    default: ThrottleRule
    rules: Mapping[str, ThrottleRule] = field(default_factory=dict)
    blacklist: frozenset[str] = frozenset()
    czxid: int = 0
    mzxid: int = 0

    def rule_for(self, domain: str) -> ThrottleRule:
        """The rule of a domain key, the default where it has none of its own."""
        return self.rules.get(domain, self.default)

    def source_of(self, domain: str) -> str:
        """What decides about a domain: ``blacklist``, its ``own`` rule, or the ``default``."""
        if domain in self.blacklist:
            return "blacklist"
        return "own" if domain in self.rules else "default"


class Reaction(IntEnum):
    """What a site did with a request; the frontier spares a site that refuses or keeps silent."""

    ANSWER = 1
    REFUSAL = 2
    """429 or 503: not now."""
    SILENCE = 3
    """No connection, or none that lasted until the response was complete."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A reaction, and how long the site asks to be left alone (0: it does not say)."""

    reaction: Reaction
    wait_ms: int = 0
    until_ms: int = 0
    """The same as a moment, in epoch ms, where nothing tells by which clock."""
