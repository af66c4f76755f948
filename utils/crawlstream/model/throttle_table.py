"""The throttle rules as values. ZooKeeper stores them, the frontier applies them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import IntEnum
from typing import Annotated, Any, get_type_hints

from crawlstream.model.request import LATEST
from crawlstream.model.rule_field import RuleField
from crawlstream.model.url import canonical_host, domain_key, host_of
from crawlstream.model.web.throttle_groups import Groups

DEFAULT_CONCURRENCY = 8
"""Concurrent requests to a domain, from lease to response, unless its rule sets it."""
_GENTLE_UNIT, _THOUSANDTHS = 10_000, 1_000
"""``render`` has at most four digits; ``gentle`` is in thousandths."""
DEFAULT_RENDER = 30
"""Further requests of a rendered page to its own site, unless the rule sets it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleRule:
    """Limit of ``int(hits * scale)`` requests to a domain in any ``window_s`` seconds.

    Moderated rules space the requests evenly; others allow bursts within the window.
    With 0 effective hits, nothing is requested from the domain until the rule changes.

    This is the only list of a rule's fields (``RULE_FIELDS``), in the order in which Redis stores
    them: add new fields at the end. ``throttle.lua`` defines their effect on requests.
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
            "Maximum number of further requests to the site of a page that a browser renders, or of"
            " which images and styles are archived; these also from pages of other sites.",
            most=1_000,
            is_late=True,
        ),
    ] = DEFAULT_RENDER
    gentle: Annotated[
        float,
        RuleField(
            "Number of servers of the site whose time all crawlers together may use, by its time"
            " to the first byte; 0: the pace does not depend on that.",
            most=8,
            off_below=0.01,
            phrase=", gentle {}",
            is_applied=False,
        ),
    ] = 0.0

    @property
    def is_paused(self) -> bool:
        """Return whether the rule is paused now, by the clock of this machine."""
        return self.paused_until > time.time()

    @property
    def effective_hits(self) -> int:
        """Return the number of requests allowed per window while the rule is not paused."""
        return int(self.hits * min(max(self.scale, 0.0), 1.0))

    def __str__(self) -> str:
        """Return the rule in words: ``10 per 60 s, evenly, 8 at a time``."""
        effective = replace(self, hits=self.effective_hits)
        told = (f for f in RULE_FIELDS if f.is_told(self) and (not f.is_time or self.is_paused))
        return "".join(f.phrase.format(f.shown(f.value_of(effective))) for f in told)

    def named(self) -> dict[str, Any]:
        """Return its values by their names in ZooKeeper."""
        return {one.name: one.value_of(self) for one in RULE_FIELDS}

    def values(self) -> list[Any]:
        """Return its values in the order of the fields."""
        return [one.value_of(self) for one in RULE_FIELDS]

    @classmethod
    def of_values(cls, values: Iterable[Any]) -> ThrottleRule:
        """Return the rule for a result of ``values``; fields added since get their defaults."""
        return cls(**dict(zip(_ATTRIBUTES, values, strict=False)))

    def applied(self) -> str:
        """Return the rule as the frontier applies it: whole numbers, hits already scaled.

        Fields marked ``is_late`` are left out at the end while they have their default. ``gentle``,
        in thousandths, is in front of the last four digits of the last number: processes of the
        version before use the rest of the rule, and refuse one with a further number.
        """
        effective = replace(self, hits=self.effective_hits)
        told = list(_APPLIED)
        while not self.gentle and told[-1].is_late and told[-1].value_of(self) == told[-1].default:
            told.pop()
        numbers = [one.applied(one.value_of(effective)) for one in told]
        if self.gentle:
            numbers[-1] += _GENTLE_UNIT * round(self.gentle * _THOUSANDTHS)
        return " ".join(map(str, numbers))

    @classmethod
    def of_applied(cls, text: str) -> ThrottleRule:
        """Return the rule, scaled, for a result of ``applied``."""
        numbers, gentle = [*map(int, text.split())], 0
        if len(numbers) == len(_APPLIED):
            gentle, numbers[-1] = divmod(numbers[-1], _GENTLE_UNIT)
        given = zip(_APPLIED, numbers, strict=False)
        fields = {one.attribute: one.from_applied(number) for one, number in given}
        return cls(**fields, gentle=gentle / _THOUSANDTHS)


def _rule_fields() -> Iterator[RuleField]:
    hints = get_type_hints(ThrottleRule, include_extras=True)
    for attribute in fields(ThrottleRule):
        default = None if attribute.default is MISSING else attribute.default
        kind, one = hints[attribute.name].__origin__, hints[attribute.name].__metadata__[0]
        yield one.of(attribute.name, kind, default)


RULE_FIELDS: Sequence[RuleField] = tuple(_rule_fields())
"""All fields of a rule: name, type, bounds, default and meaning."""
_ATTRIBUTES = tuple(one.attribute for one in RULE_FIELDS)
_APPLIED = tuple(one for one in RULE_FIELDS if one.is_applied)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleTable:
    """All rules at one version of the ZooKeeper node; immutable, replaced as a whole.

    A *site* is a rate-limit unit: a registrable domain without those of its hosts that have a rule
    or block of their own. The most specific rule wins; a block covers all names below it.
    Methods take a *place*: a URL or a host.
    """

    default: ThrottleRule
    rules: Mapping[str, ThrottleRule] = field(default_factory=dict)
    blacklist: frozenset[str] = frozenset()
    groups: Groups[ThrottleRule] = field(default_factory=Groups)
    """Domains with one more limit in common."""
    czxid: int = 0
    mzxid: int = 0

    def site_of(self, place: str) -> str:
        """Return the rate-limit unit that counts the requests to a place."""
        names = list(_upwards(place))
        return next((name for name in names if self._names(name)), names[-1])

    def rule_for(self, place: str) -> ThrottleRule:
        """Return the rule of a place or site: the most specific one, or the default."""
        named = self.named_rule(place)
        return self.default if named is None else self.rules[named]

    def named_rule(self, place: str) -> str | None:
        """Return the name that has the rule of a place; None: the default applies."""
        return next((name for name in _upwards(place) if name in self.rules), None)

    def group_of(self, place: str) -> str | None:
        """Return the name of the group that the site of a place belongs to; None: of no group."""
        return self.groups.group_of(self.site_of(place))

    def block_of(self, place: str) -> str | None:
        """Return the blacklisted name that covers a place; None: it is not blocked."""
        return next((name for name in _upwards(place) if name in self.blacklist), None)

    def source_of(self, host: str) -> str:
        """Return the origin of a host's limit: ``blacklist``, ``own``, ``above`` or ``default``."""
        if self.block_of(host) is not None:
            return "blacklist"
        named = self.named_rule(host)
        return "default" if named is None else "own" if named == host else "above"

    def parted(self) -> Mapping[str, str]:
        """Return the sites that are only a part of a registrable domain, with that domain."""
        domains = {name: domain_key(name) for name in (*self.rules, *self.blacklist)}
        return {name: domain for name, domain in domains.items() if domain != name}

    def _names(self, name: str) -> bool:
        return name in self.rules or name in self.blacklist


def site_of(table: ThrottleTable | None, place: str) -> str:
    """Return the rate-limit unit of a place; without rules, every registrable domain is one."""
    return table.site_of(place) if table else domain_key(_host_at(place))


def _host_at(place: str) -> str:
    return host_of(place) if "://" in place else place


def _upwards(place: str) -> Iterator[str]:
    """Yield all names that a rule for a place can have, up to its registrable domain."""
    host = _host_at(place)
    domain, name = domain_key(host), canonical_host(host)
    while name != domain and name:
        yield name
        name = name.partition(".")[2]
    yield domain


class Reaction(IntEnum):
    """Reaction of a site to a request; the frontier backs off after a refusal or silence."""

    ANSWER = 1
    REFUSAL = 2
    """Status 429 or 503."""
    SILENCE = 3
    """No connection, or one that broke before the response was complete."""


@dataclass(frozen=True, slots=True)
class SiteReaction:
    """Reaction of a site, and the time for which it requests a pause (0: none given)."""

    reaction: Reaction
    wait_ms: int = 0
    until_ms: int = 0
    """End of that pause in epoch ms, if the site names a time without the clock it refers to."""
