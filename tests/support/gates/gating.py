"""Limits that domains have in common, as the plain model of the frontier believes in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_network
from random import Random
from typing import TYPE_CHECKING

from crawlstream.model.throttle_table import ThrottleRule
from crawlstream.model.web.throttle_groups import AddressLimits, Group, Groups
from support.frontier.values import UNHEARD_MS, bucket_ms

if TYPE_CHECKING:
    from support.frontier.model import Model

RULES = (
    ThrottleRule(hits=2, window_s=1, moderated=False),
    ThrottleRule(hits=5, window_s=3, moderated=False, concurrency=2),
)
MEMBERS = {"one": ("a.example", "c.example"), "two": ("example",), "net": ()}
"""Members of the groups, of which the first that covers a domain counts."""
NETWORK = ip_network("192.0.2.0/24")
ADDRESSES = ("=@198.51.100.1", "=@198.51.100.2")
NAMES = (*(f"={name}" for name in MEMBERS), *ADDRESSES)
NONE: Groups[ThrottleRule] = Groups()


def some_groups(random: Random) -> Groups[ThrottleRule]:
    """Return random groups, or none, with or without a limit of addresses."""
    names = random.sample([*MEMBERS], random.choice((0, 1, 2, 3)))
    groups = {
        name: Group(
            rule=random.choice(RULES),
            members=MEMBERS[name],
            networks=() if MEMBERS[name] else (NETWORK,),
        )
        for name in names
    }
    limit = AddressLimits(rule=random.choice(RULES)) if random.random() < 0.5 else None
    return Groups(groups, limit)


@dataclass
class Gates:
    """Gates of the table, and the domains that workers have found at addresses."""

    groups: Groups[ThrottleRule] = NONE
    located: dict[str, str] = field(default_factory=dict)

    def rule_of(self, gate: str, default: ThrottleRule) -> ThrottleRule:
        """Return the rule of a gate; one that is in no table has that of all domains."""
        if gate.startswith("=@"):
            return self.groups.addresses.rule if self.groups.addresses else default
        group = self.groups.by_name.get(gate[1:])
        return group.rule if group else default

    def of(self, domain: str) -> str:
        """Return the gate of a domain; empty: it has none."""
        for name in self.groups.by_name:
            if any(domain == one or domain.endswith(f".{one}") for one in MEMBERS[name]):
                return f"={name}"
        return self.located.get(domain, "") if self.places else ""

    @property
    def places(self) -> Sequence[str]:
        """Return the gates that addresses have; empty: none."""
        addresses = ADDRESSES if self.groups.addresses else ()
        return (*(["=net"] if "net" in self.groups.by_name else []), *addresses)

    def change(self, groups: Groups[ThrottleRule]) -> None:
        """Take over another table: where its addresses have other gates, none is known."""
        before, self.groups = self.places, groups
        if before != self.places:
            self.located.clear()

    def locate(self, domain: str, gate: str) -> None:
        """Note the gate of the address at which a worker has found a domain."""
        self.located[domain] = gate
        if not gate:
            del self.located[domain]


def allowance(model: Model, name: str, now: int, *, is_sure: bool) -> int:
    """Return how many grants a domain, or gate, allows by its own rule at least, or at most."""
    held = [each for of in model.leases.values() for each in of.values()]
    leases = [each for each in held if name in {each.item.domain, each.gate}]
    domain = model.domain(name)
    domain.expire(now)
    reach = int(domain.rule.window_s * 1000) + bucket_ms(domain.rule)
    if is_sure and model.restarted_at + UNHEARD_MS + reach > now:
        return 0
    if domain.ruled_since <= model.restarted_at and domain.is_spent_by(model.restarted_at, now):
        return 0
    unreported = sum(not lease.is_reported for lease in leases)
    concurrent = sum(not lease.is_received for lease in leases)
    return domain.may_send(now, unreported, concurrent, is_sure=is_sure)
