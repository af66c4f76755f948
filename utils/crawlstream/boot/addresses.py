"""Judges addresses and ports that others name; does not connect.

The tables list what IANA calls special, and what clouds keep for themselves, not what
``ipaddress`` calls private: that one lets through multicast, metadata behind carrier-grade NAT or
behind a public number, and several of the ways to write an IPv4 address as IPv6.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

import psutil

from crawlstream.boot.sections.crawling import Network

Address = IPv4Address | IPv6Address

WEB_PORTS = frozenset({80, 443, 8000, 8008, 8080, 8081, 8443, 8888})
"""Ports that web servers listen on; behind others live databases, brokers and consoles."""

_VERDICTS_REMEMBERED = 10_000
_INTERFACES_KNOWN_S = 60.0

_SPECIAL = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8",  # this network; the kernel takes it for loopback
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT, and a cloud's metadata
        "127.0.0.0/8",
        "161.26.0.0/16",  # IBM Cloud's service network
        "166.8.0.0/14",  # IBM Cloud's service network
        "168.63.129.16/32",  # Azure's WireServer
        "169.254.0.0/16",  # link-local, and most clouds' metadata
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments, and a cloud's metadata
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "2001::/23",  # Teredo and other protocol assignments
        "2001:db8::/32",
        "2002::/16",  # 6to4: any IPv4 address in disguise
        "2620:4f:8000::/48",
        "3fff::/20",
    )
)
_INSIDE = tuple(
    ip_network(text)
    for text in (
        *("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),
        *("::1/128", "fc00::/7"),
    )
)
"""Special, but addresses of machines: a proxy may stand there."""
_METADATA = tuple(map(ip_network, ("100.100.100.200/32", "fd00:ec2::/32")))
"""Addresses among them that clouds reserve for their own services."""
_UNICAST = IPv6Network("2000::/3")
"""All global unicast addresses of IPv6; the others are local, special or not assigned."""
_MAPPED = IPv6Network("::ffff:0:0/96")
_TRANSLATED = IPv6Network("64:ff9b::/96")
"""Both end at the IPv4 address in their last 32 bits; the latter through a NAT64 on the way."""
_ISATAP = 0x5EFE
"""Bits 32 to 63 of a tunnel's interface; the last 32 are any IPv4 address."""
_ISATAP_IS_GLOBAL = 0x0200_0000


class AddressRefused(Exception):
    """The address or port is none that may be connected to; ``kind`` is for counting."""

    def __init__(self, why: str = "", kind: str = "special") -> None:
        super().__init__(why)
        self.kind = kind


def _no_addresses() -> Collection[Address]:
    return ()


@dataclass(frozen=True, slots=True)
class Guard:
    """Decides about addresses and ports."""

    opened: tuple[Network, ...] = ()
    """Ranges that the operator allows, every port of them."""
    denied: tuple[Network, ...] = ()
    """Ranges that the operator forbids, whatever else is said of them."""
    own: Callable[[], Collection[Address]] = _no_addresses
    """Return the addresses of this machine: its own services are not open to strangers."""

    def vet(self, addresses: Sequence[Address], port: int) -> list[Address]:
        """Return the addresses of a name that may be connected to; AddressRefused gives the reason.

        One internal address among public ones refuses the name: that is how rebinding looks. In a
        range that the operator opened every port is open, and the name's other addresses are passed
        over (``localhost`` has two).
        """
        for each in addresses:
            if self.denied and (_within(each, self.denied) or _within(_meant(each), self.denied)):
                raise AddressRefused(
                    f"{each} is in a denied network (CRAWLSTREAM_DENY_NETWORKS)", "denied"
                )
        opened = [each for each in addresses if _within(_meant(each), self.opened)]
        if opened:
            return [_target(each) for each in opened]
        own = self.own()
        for each in addresses:
            if _is_special(each):
                raise AddressRefused(f"{_meant(each)} is not a public address")
            if _meant(each) in own:
                raise AddressRefused(f"{each} is an address of this machine", "own")
        if port not in WEB_PORTS:
            raise AddressRefused(f"port {port} is not an allowed web port", "port")
        return [_target(each) for each in addresses]

    def vet_proxy(self, addresses: Sequence[Address]) -> list[Address]:
        """Return the addresses of a proxy that the operator configured, or raise AddressRefused.

        A proxy may stand in an internal network, on any port. Addresses that belong to no machine,
        and the metadata addresses of clouds, are refused.
        """
        for each in addresses:
            meant = _meant(each)
            if _within(each, self.denied) or _within(meant, self.denied):
                raise AddressRefused(
                    f"{each} is in a denied network (CRAWLSTREAM_DENY_NETWORKS)", "denied"
                )
            is_inside = _within(meant, _INSIDE) and not _within(meant, _METADATA)
            if _is_special(each) and not is_inside:
                raise AddressRefused(f"{meant} cannot be the address of a proxy")
        return [_target(each) for each in addresses]


class Interfaces:
    """The addresses of this machine's interfaces, read again every minute."""

    def __init__(self) -> None:
        self._until = 0.0
        self._addresses: Collection[Address] = frozenset()

    def __call__(self) -> Collection[Address]:
        """All of them, as they were a minute ago at the earliest."""
        now = time.monotonic()
        if now >= self._until:
            self._addresses, self._until = _interface_addresses(), now + _INTERFACES_KNOWN_S
        return self._addresses


def _interface_addresses() -> Collection[Address]:
    return frozenset(
        ip_address(each.address.partition("%")[0])
        for interface in psutil.net_if_addrs().values()
        for each in interface
        if each.family in {socket.AF_INET, socket.AF_INET6}
    )


def _within(each: Address, networks: Sequence[Network]) -> bool:
    return any(each in network for network in networks)


@lru_cache(_VERDICTS_REMEMBERED)
def _is_special(each: Address) -> bool:
    meant = _meant(each)
    if isinstance(meant, IPv6Address) and (meant not in _UNICAST or _is_isatap(meant)):
        return True
    return _within(meant, _SPECIAL)


def _is_isatap(each: IPv6Address) -> bool:
    return (int(each) >> 32 & 0xFFFF_FFFF) & ~_ISATAP_IS_GLOBAL == _ISATAP


def _meant(each: Address) -> Address:
    """Return where a connection to an address ends."""
    if isinstance(each, IPv6Address) and (each in _MAPPED or each in _TRANSLATED):
        return IPv4Address(int(each) & 0xFFFF_FFFF)
    return each


def _target(each: Address) -> Address:
    """Return the address to connect to; a translated one stays, as it may be the only route."""
    return _meant(each) if isinstance(each, IPv6Address) and each in _MAPPED else each
