"""Which addresses a lease pays for, and what becomes of one that pays for none of them."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest

from crawling.lease.leases import Leases
from crawling.lease.machines import OtherMachine
from crawling.page.page import Page
from crawlstream.model.effects import UNSENT
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream.model.web.throttle_groups import AddressLimits, Group, Groups
from support.crawler.leases import Clock, lease

RULE = ThrottleRule(hits=1, window_s=1)
HOME, AWAY, FREE = map(ip_address, ("192.0.2.1", "192.0.2.2", "198.51.100.1"))
GROUPS = Groups(
    {"named": Group(rule=RULE, members=("named.example",))},
    AddressLimits(rule=RULE, excepted=(ip_network("198.51.100.0/24"),)),
)


def leases_with(groups: Groups[ThrottleRule] | None) -> Leases:
    """Leases by these limits."""
    leases = Leases(4, lambda: None, Clock())
    leases.machines.groups_of = lambda _partition: groups
    return leases


def page_of(leases: Leases, gate: str, domain: str = "a.example") -> Page:
    """A page whose lease used this gate; its request is about to connect."""
    page = leases.admit(lease(domain=domain, gate=gate))
    leases.set_out(page, page.lease.entry.url)
    return page


def test_without_limits_of_addresses_nobody_looks() -> None:
    """Looks up no address if there are no limits of addresses, even with named groups."""
    addresses = [AWAY, HOME]
    for groups in (None, Groups[ThrottleRule](), Groups(GROUPS.by_name)):
        leases = leases_with(groups)
        page = page_of(leases, "")
        assert leases.machines.covered(page, addresses) is addresses
        assert not leases.machines.count(page)


def test_only_addresses_of_the_gate_are_paid_for() -> None:
    """A name may have several; a named group covers all of them, and some have no limit."""
    leases = leases_with(GROUPS)
    assert leases.machines.covered(page_of(leases, "=@192.0.2.2"), [HOME, AWAY, FREE]) == [AWAY]
    assert leases.machines.covered(page_of(leases, ""), [HOME, AWAY, FREE]) == [FREE]
    named = page_of(leases, "=named", "named.example")
    assert leases.machines.covered(named, [HOME, FREE]) == [HOME, FREE]


@pytest.mark.parametrize(
    ("addresses", "gate", "right"),
    [
        ([AWAY, HOME], "", "=@192.0.2.1"),
        ([ip_address("2001:db8::7"), AWAY], "", "=@192.0.2.2"),
        ([ip_address("2001:db8::7")], "=@192.0.2.2", "=@2001:db8::"),
        ([FREE], "=@192.0.2.2", ""),
    ],
)
def test_a_lease_of_another_gate_is_given_back_unsent(
    addresses: list[object], gate: str, right: str
) -> None:
    """Returns an unsent lease with the gate of the smallest address, so that all crawlers agree."""
    leases = leases_with(GROUPS)
    page = page_of(leases, gate)
    with pytest.raises(OtherMachine):
        leases.machines.covered(page, addresses)  # type: ignore[arg-type]
    leases.release(page)
    (release,) = leases.of(0).take_report().releases
    assert (release.gate, release.sent_ms) == (right, UNSENT)


def test_a_grant_that_was_used_stays_used() -> None:
    """The page had sent its robots.txt before its site moved."""
    leases = leases_with(GROUPS)
    page = page_of(leases, "=@192.0.2.1")
    leases.depart(page)
    leases.departed(page)
    with pytest.raises(OtherMachine):
        leases.machines.covered(page, [AWAY])
    leases.release(page)
    (release,) = leases.of(0).take_report().releases
    assert (release.gate, release.sent_ms) == ("=@192.0.2.2", 1)
