"""Which addresses the lease of a page pays for: those of the gate that it used.

A gate is a limit that domains have in common because they share a machine. The frontier knows the
address of a domain only from a worker that has looked it up; so each worker looks before it
connects, and gives a lease of another gate back, unsent, with the right one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from crawling.lease.expired import GrantExpired
from crawling.page.page import Page
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream.model.web.throttle_groups import Address, Groups


class OtherMachine(GrantExpired):
    """The site of a page is at an address of another gate than its lease has used."""

    reason = "other_machine"


class Machines:
    """The limits of machines by which leases are granted."""

    def __init__(self) -> None:
        self.groups_of: Callable[[int], Groups[ThrottleRule] | None] = lambda _partition: None
        """Function that returns the limits that a partition grants by; None: there are none."""

    def count(self, page: Page) -> bool:
        """Return whether the address matters to which a page's request goes."""
        groups = self.groups_of(page.lease.partition)
        return groups is not None and groups.places != ""

    def covered(self, page: Page, addresses: Sequence[Address]) -> Sequence[Address]:
        """Return those addresses that a page may be requested from; OtherMachine: none of them.

        If none matters, the same object is returned.
        """
        lease = page.lease
        groups = self.groups_of(lease.partition)
        if groups is None or not self.count(page):
            return addresses
        gates = {address: groups.gate_at(lease.domain, address) for address in addresses}
        covered = [address for address, gate in gates.items() if gate == lease.gate]
        if covered:
            return covered
        first = min(gates, key=lambda address: (address.version, int(address)))
        page.located = gates[first]
        raise OtherMachine
