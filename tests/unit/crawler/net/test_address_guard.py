"""The guard: which addresses and ports may be connected to."""

from __future__ import annotations

import asyncio
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY
from scrapy import Request
from scrapy.exceptions import CannotResolveHostError

from crawling.engine.download_handler import _places
from crawling.net import address_guard as guard_module
from crawling.net.address_guard import GuardedResolver
from crawlstream.boot.addresses import AddressRefused, Guard, Interfaces
from support.crawler.inside import ADDRESSES

PUBLIC = (
    "1.1.1.1", "8.8.8.8", "93.184.216.34", "172.15.255.255", "172.32.0.1", "192.167.1.1",
    "223.255.255.255", "168.63.129.17", "166.12.0.1", "2606:4700::1111", "2a00:1450::1",
    "::ffff:8.8.8.8", "64:ff9b::808:808",
)  # fmt: skip


@pytest.mark.parametrize("text", ADDRESSES)
def test_special_addresses_are_refused(text: str) -> None:
    """No address that IANA reserves is connected to, in whatever way it is written."""
    with pytest.raises(AddressRefused):
        Guard().vet([ip_address(text)], 80)


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses_pass(text: str) -> None:
    """Addresses of the public internet may be crawled."""
    assert Guard().vet([ip_address(text)], 443)


MACHINES_INSIDE = {
    "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.1.2.3", "172.16.0.1", "172.31.255.255",
    "192.168.1.1", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "fc00::1",
}  # fmt: skip


@pytest.mark.parametrize("text", [*ADDRESSES, *PUBLIC])
def test_a_proxy_may_stand_inside_but_nowhere_that_no_machine_is(text: str) -> None:
    """Metadata, link-local, multicast, this network and denied ones are closed to proxies."""
    address = ip_address(text)
    if text in MACHINES_INSIDE or text in PUBLIC:
        assert Guard().vet_proxy([address])
    else:
        with pytest.raises(AddressRefused):
            Guard().vet_proxy([address])
    with pytest.raises(AddressRefused):
        Guard(denied=(ip_network("0.0.0.0/0"), ip_network("::/0"))).vet_proxy([address])


@given(st.ip_addresses(v=4).filter(lambda each: not each.is_global))
def test_every_ipv4_address_that_is_not_global_is_refused_in_every_disguise(each: object) -> None:
    """Special addresses of the standard library are known, mapped and translated as well."""
    for text in (f"{each}", f"::ffff:{each}", f"64:ff9b::{each}"):
        with pytest.raises(AddressRefused):
            Guard().vet([ip_address(text)], 80)


def test_one_internal_answer_refuses_the_name() -> None:
    """A name with a public and an internal address is how rebinding looks."""
    with pytest.raises(AddressRefused):
        Guard().vet([ip_address("8.8.8.8"), ip_address("10.0.0.1")], 80)


def test_what_was_vetted_is_what_is_connected_to() -> None:
    """A mapped address in its plain form, one for a NAT64 as it is: there may be no IPv4."""
    assert Guard().vet([ip_address("::ffff:8.8.8.8")], 80) == [ip_address("8.8.8.8")]
    assert Guard().vet([ip_address("64:ff9b::808:808")], 80) == [ip_address("64:ff9b::808:808")]


@pytest.mark.parametrize(
    "text", ["8.8.8.8", "::ffff:8.8.8.8", "64:ff9b::808:808", "10.8.0.1", "2606:4700::1"]
)
def test_a_denied_range_wins_over_an_opened_one(text: str) -> None:
    """Refuses a denied range in any spelling, whatever else its name leads to."""
    denied = ("8.8.0.0/16", "10.8.0.0/16", "2606:4700::/32")
    guard = Guard((ip_network("0.0.0.0/0"), ip_network("::/0")), tuple(map(ip_network, denied)))
    with pytest.raises(AddressRefused) as refused:
        guard.vet([ip_address("1.1.1.1"), ip_address(text)], 80)
    assert refused.value.kind == "denied"
    assert guard.vet([ip_address("1.1.1.1")], 6379)


def test_the_machines_own_addresses_are_closed_unless_they_are_opened() -> None:
    """Refuses the machine's own addresses, whose services trust local clients."""
    own = frozenset({ip_address("8.8.4.4"), ip_address("2606:4700::2")})
    for text in ("8.8.4.4", "::ffff:8.8.4.4", "2606:4700::2"):
        with pytest.raises(AddressRefused, match="this machine"):
            Guard(own=lambda: own).vet([ip_address(text)], 80)
    assert Guard((ip_network("8.8.4.4/32"),), own=lambda: own).vet([ip_address("8.8.4.4")], 80)
    assert ip_address("127.0.0.1") in Interfaces()()


def test_a_proxy_does_not_hide_the_target() -> None:
    """Checks both the target and the proxy that a middleware sets."""
    request = Request("http://10.0.0.1/x", meta={"proxy": "proxy.example:3128"})
    assert list(_places(request)) == [("10.0.0.1", 80), ("proxy.example", 3128)]
    assert list(_places(Request("https://a.example/"))) == [("a.example", 443)]


def refusals(kind: str) -> float:
    """How many were counted so far."""
    return REGISTRY.get_sample_value("crawlstream_addresses_refused_total", {"why": kind}) or 0


async def test_refusals_are_counted_by_reason() -> None:
    """A log line for each request that was refused."""
    guard = Guard(denied=(ip_network("9.9.9.9/32"),), own=lambda: {ip_address("8.8.4.4")})
    resolver = GuardedResolver(guard, reactor=None)
    asked = {"special": "10.0.0.1", "denied": "9.9.9.9", "own": "8.8.4.4", "port": "1.1.1.1"}
    before = {kind: refusals(kind) for kind in asked}
    for kind, text in asked.items():
        with pytest.raises(AddressRefused):
            await resolver.resolve(text, 22 if kind == "port" else 80)
    assert {kind: refusals(kind) - before[kind] for kind in asked} == dict.fromkeys(asked, 1)


@pytest.mark.parametrize("port", [22, 25, 2181, 5432, 6379, 9092, 27017])
def test_ports_of_other_services_are_refused(port: int) -> None:
    """Opens only ports of web servers."""
    with pytest.raises(AddressRefused, match=str(port)):
        Guard().vet([ip_address("8.8.8.8")], port)


def test_an_opened_range_is_open_on_every_port_and_nothing_beside_it() -> None:
    """The operator's range holds whatever the table says; its neighbours stay closed."""
    guard = Guard((ip_network("127.0.0.0/8"),))
    assert guard.vet([ip_address("127.0.0.5")], 6379)
    assert guard.vet([ip_address("::1"), ip_address("127.0.0.1")], 80) == [ip_address("127.0.0.1")]
    with pytest.raises(AddressRefused):
        guard.vet([ip_address("10.0.0.1")], 80)
    with pytest.raises(AddressRefused):
        guard.vet([ip_address("::1")], 80)


async def test_many_requests_for_one_name_are_one_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that wait for the same name share the answer, and later ones remember it."""
    asked: list[str] = []

    def lookup(host: str) -> tuple[object, ...]:
        asked.append(host)
        return (ip_address("8.8.8.8"),) if host == "known.example" else ()

    monkeypatch.setattr(guard_module, "_system_lookup", lookup)
    resolver = GuardedResolver(Guard(), reactor=None)
    answers = await asyncio.gather(*(resolver.resolve("known.example", 80) for _ in range(20)))
    assert await resolver.resolve("known.example", 443) == answers[0]
    for _ in range(2):
        with pytest.raises(CannotResolveHostError):
            await resolver.resolve("unknown.example", 80)
    assert asked == ["known.example", "unknown.example"]
