"""Groups of domains that have one more limit in common, because they share a machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, TypeVar

GATE = "="
"""First character of the name of a group's gate in the frontier; no host name contains it."""
GROUP_LIMITS = ("hits", "window", "concurrency")
"""Names of the fields of a rule that a group has."""
MOST_GROUPS, MOST_MEMBERS = 256, 10_000
"""Bounds of a table; members of all groups together."""

Rule = TypeVar("Rule")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group(Generic[Rule]):
    """Domains whose requests together keep to a rule, in addition to the rule of each."""

    rule: Rule
    """It allows bursts; the rules of the domains may space the requests."""
    members: tuple[str, ...] = ()
    """Host names, each with all names below it."""


@dataclass(frozen=True)
class Groups(Generic[Rule]):
    """All groups, in the order in which they are written: the first that covers a domain counts."""

    by_name: Mapping[str, Group[Rule]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Return whether there are groups."""
        return bool(self.by_name)

    def gates(self) -> Mapping[str, Rule]:
        """Return the rules by the names of their gates."""
        return {GATE + name: group.rule for name, group in self.by_name.items()}

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
