"""Addresses that share one limit."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address


def peer_of(address: str) -> str:
    """Return the peer of an address: itself, or the /64 that an IPv6 client has for its own."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return address
    if found.ipv4_mapped:
        return str(found.ipv4_mapped)
    return str(IPv6Address(int(found) >> 64 << 64)) + "/64"
