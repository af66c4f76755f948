"""The throttle rules as values. ZooKeeper holds them, the frontier applies them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from crawlstream.model.url import domain_key

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
    """All rules at one version of the ZooKeeper node; immutable, replaced as a whole.

    A *site* is what requests are counted under together: a registrable domain, without those hosts
    of it that a more specific name with a rule, or on the blacklist, stands for. The most specific
    rule wins; a block covers all that is below it.
    """

    default: ThrottleRule
    rules: Mapping[str, ThrottleRule] = field(default_factory=dict)
    blacklist: frozenset[str] = frozenset()
    czxid: int = 0
    mzxid: int = 0

    def site_of(self, host: str) -> str:
        """What the requests to a host are counted under."""
        names = list(_upwards(host))
        return next((name for name in names if self._names(name)), names[-1])

    def rule_for(self, host: str) -> ThrottleRule:
        """The rule of a host or site: the most specific one, or the default."""
        named = self.named_rule(host)
        return self.default if named is None else self.rules[named]

    def named_rule(self, host: str) -> str | None:
        """The name that the rule of a host was given to; None: the default applies."""
        return next((name for name in _upwards(host) if name in self.rules), None)

    def block_of(self, host: str) -> str | None:
        """The name on the blacklist that covers a host, if any does."""
        return next((name for name in _upwards(host) if name in self.blacklist), None)

    def source_of(self, host: str) -> str:
        """What decides about a host: ``blacklist``, its ``own`` rule, ``above`` or ``default``."""
        if self.block_of(host) is not None:
            return "blacklist"
        named = self.named_rule(host)
        return "default" if named is None else "own" if named == host else "above"

    def parted(self) -> Mapping[str, str]:
        """The sites that are less than a registrable domain, and the domain of each."""
        domains = {name: domain_key(name) for name in (*self.rules, *self.blacklist)}
        return {name: domain for name, domain in domains.items() if domain != name}

    def _names(self, name: str) -> bool:
        return name in self.rules or name in self.blacklist


def _upwards(host: str) -> Iterator[str]:
    """A host, and what it is part of, up to its registrable domain."""
    domain, name = domain_key(host), host
    while name != domain and name:
        yield name
        name = name.partition(".")[2]
    yield domain


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
