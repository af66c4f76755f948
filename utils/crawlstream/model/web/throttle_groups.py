"""Limits that domains on one machine have in common, by their names, networks and addresses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Generic, TypeVar

GATE = "="
"""First character of the name of a group's gate in the frontier; no host name contains it."""
ADDRESS_GATE = "=@"
"""Beginning of the name of an address' gate; itself, the name of the rule of all of them."""
GROUP_LIMITS = ("hits", "window", "concurrency")
"""Names of the fields of a rule that a group has."""
MOST_GROUPS, MOST_MEMBERS = 256, 10_000
"""Bounds of a table; members of all groups together."""

Rule = TypeVar("Rule")
Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address
_IPV6_SITE = 64
"""A machine has as many addresses of IPv6 as it likes, in a network of this size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group(Generic[Rule]):
    """Domains whose requests together keep to a rule, in addition to the rule of each."""

    rule: Rule
    """It allows bursts; the rules of the domains may space the requests."""
    members: tuple[str, ...] = ()
    """Host names, each with all names below it."""
    networks: tuple[Network, ...] = ()
    """Networks: domains that are there are members, unless another group names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressLimits(Generic[Rule]):
    """Limit of the requests to each address of a site, whatever its name is."""

    rule: Rule
    excepted: tuple[Network, ...] = ()
    """Networks without such a limit."""


@dataclass(frozen=True)
class Groups(Generic[Rule]):
    """All groups, in the order in which they are written: the first that covers a domain counts."""

    by_name: Mapping[str, Group[Rule]] = field(default_factory=dict)
    addresses: AddressLimits[Rule] | None = None
    """Limit of each address that is in no network of a group; None: there is none."""

    def __bool__(self) -> bool:
        """Return whether there are groups, or limits of addresses."""
        return bool(self.by_name) or self.addresses is not None

    def gates(self) -> Mapping[str, Rule]:
        """Return the rules by the names of their gates; one rule is that of all addresses."""
        rules = {GATE + name: group.rule for name, group in self.by_name.items()}
        return rules | ({ADDRESS_GATE: self.addresses.rule} if self.addresses else {})

    @cached_property
    def _networks(self) -> Sequence[tuple[str, Network]]:
        return [
            (GATE + name, network)
            for name, group in self.by_name.items()
            for network in group.networks
        ]

    @cached_property
    def places(self) -> str:
        """Everything that the gate of an address depends on, as text; empty: it has none."""
        excepted = self.addresses and [str(network) for network in self.addresses.excepted]
        networks = [f"{gate} {network}" for gate, network in self._networks]
        return "" if excepted is None and not networks else repr((networks, excepted))

    def gate_at(self, site: str, address: Address) -> str:
        """Return the gate of a site that has this address; empty: it has none.

        The group that names the site counts, else the first with a network of the address, else
        the address itself.
        """
        if named := self.group_of(site):
            return GATE + named
        for gate, network in self._networks:
            if address in network:
                return gate
        if self.addresses is None or any(address in each for each in self.addresses.excepted):
            return ""
        if isinstance(address, IPv6Address):
            address = IPv6Network((address, _IPV6_SITE), strict=False).network_address
        return f"{ADDRESS_GATE}{address}"

    @cached_property
    def gate_of_members(self) -> Mapping[str, str]:
        """The gate of each member: that of the first group that covers it."""
        names, first = list(self.by_name), dict[str, int]()
        for number, name in enumerate(names):
            for member in self.by_name[name].members:
                first.setdefault(member, number)
        return {
            member: GATE + names[min(first[one] for one in upwards(member) if one in first)]
            for member in first
        }

    def group_of(self, site: str) -> str | None:
        """Return the name of the group that a site belongs to; None: of no group."""
        gates = self.gate_of_members
        gate = next((gates[name] for name in upwards(site) if name in gates), None)
        return gate and gate.removeprefix(GATE)


def upwards(name: str) -> Iterator[str]:
    """Yield a host name and all names above it."""
    while name:
        yield name
        name = name.partition(".")[2]
