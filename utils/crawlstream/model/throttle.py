"""The throttle rules as values. ZooKeeper holds them, the frontier applies them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import IntEnum
from typing import Annotated, Any, get_type_hints

from crawlstream.model.request import LATEST
from crawlstream.model.rule_field import RuleField
from crawlstream.model.url import canonical_host, domain_key

DEFAULT_CONCURRENCY = 8
"""Requests under way at once to one domain, from lease to response, unless its rule says else."""
DEFAULT_RENDER = 30
"""Further requests of a rendered page to its own site, unless the rule says else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleRule:
    """At most ``int(hits * scale)`` requests to a domain in any ``window_s`` seconds.

    Moderated rules space the requests evenly; others allow bursts within the window.
    An effective allowance of 0 holds the domain back until the rule changes.

    This is the one list of a rule's fields (``RULE_FIELDS``), in the order in which Redis keeps
    them: a new one is the last. What each means to a request is said in ``throttle.lua``.
    """

    hits: Annotated[
        int, RuleField("Maximum number of requests per window.", most=1_000_000_000, phrase="{}")
    ]
    window_s: Annotated[
        float,
        RuleField(
            "Length of the window, in seconds.",
            least=0.001,
            most=366 * 24 * 3600,
            name="window",
            unit="s",
            phrase=" per {}",
        ),
    ]
    scale: Annotated[
        float, RuleField("Fraction of the hits to use.", is_inherited=False, is_applied=False)
    ] = 1.0
    moderated: Annotated[
        bool,
        RuleField(
            "Space the requests of a window evenly instead of sending them in bursts.",
            label="pace",
            words=("in bursts", "evenly"),
            flags="--even/--burst",
            phrase=", {}",
        ),
    ] = True
    concurrency: Annotated[
        int,
        RuleField(
            "Maximum number of concurrent requests.",
            least=1,
            most=100_000,
            label="at a time",
            phrase=", {} at a time",
        ),
    ] = DEFAULT_CONCURRENCY

    paused_until: Annotated[
        int,
        RuleField(
            "Time until which nothing is requested, in epoch seconds; 0: not paused.",
            most=LATEST,
            label="paused until",
            flags="--paused-until",
            phrase=", paused until {}",
            is_inherited=False,
            is_time=True,
            is_late=True,
        ),
    ] = 0
    render: Annotated[
        int,
        RuleField(
            "Maximum number of further requests to the site of a page that a browser renders.",
            most=1_000,
            is_late=True,
        ),
    ] = DEFAULT_RENDER

    @property
    def is_paused(self) -> bool:
        """Whether it allows nothing just now, by the clock of this machine."""
        return self.paused_until > time.time()

    @property
    def effective_hits(self) -> int:
        """Requests allowed in one window, while the rule is not paused."""
        return int(self.hits * min(max(self.scale, 0.0), 1.0))

    def __str__(self) -> str:
        """The rule in words: ``10 per 60 s, evenly, 8 at a time``."""
        effective = replace(self, hits=self.effective_hits)
        told = (f for f in RULE_FIELDS if not f.is_time or self.is_paused)
        return "".join(f.phrase.format(f.shown(f.value_of(effective))) for f in told)

    def named(self) -> dict[str, Any]:
        """Its fields by their names in ZooKeeper."""
        return {one.name: one.value_of(self) for one in RULE_FIELDS}

    def values(self) -> list[Any]:
        """Its fields, in their order."""
        return [one.value_of(self) for one in RULE_FIELDS]

    @classmethod
    def of_values(cls, values: Iterable[Any]) -> ThrottleRule:
        """The rule that ``values`` gave; fields that there were not yet have their defaults."""
        return cls(**dict(zip(_ATTRIBUTES, values, strict=False)))

    def applied(self) -> str:
        """The rule as the frontier applies it: whole numbers, the scale within the hits.

        What came later than others and is at its default is left out at the end.
        """
        effective = replace(self, hits=self.effective_hits)
        told = list(_APPLIED)
        while told[-1].is_late and told[-1].value_of(self) == told[-1].default:
            told.pop()
        return " ".join(str(one.applied(one.value_of(effective))) for one in told)

    @classmethod
    def of_applied(cls, text: str) -> ThrottleRule:
        """The rule, scaled, that ``applied`` gave."""
        given = zip(_APPLIED, map(int, text.split()), strict=False)
        return cls(**{one.attribute: one.from_applied(number) for one, number in given})


def _rule_fields() -> Iterator[RuleField]:
    hints = get_type_hints(ThrottleRule, include_extras=True)
    for attribute in fields(ThrottleRule):
        default = None if attribute.default is MISSING else attribute.default
        kind, one = hints[attribute.name].__origin__, hints[attribute.name].__metadata__[0]
        yield one.of(attribute.name, kind, default)


RULE_FIELDS: Sequence[RuleField] = tuple(_rule_fields())
"""Every field of a rule: name, type, bounds, default and what it means."""
_ATTRIBUTES = tuple(one.attribute for one in RULE_FIELDS)
_APPLIED = tuple(one for one in RULE_FIELDS if one.is_applied)


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
    """A host in canonical form, and what it is part of, up to its registrable domain."""
    domain, name = domain_key(host), canonical_host(host)
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
