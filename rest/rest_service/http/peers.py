"""Who shares the limits of an address."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address


def peer_of(address: str) -> str:
    """Whom an address stands for: itself, or the /64 that a client of IPv6 has for its own."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return address
    if found.ipv4_mapped:
        return str(found.ipv4_mapped)
    return str(IPv6Address(int(found) >> 64 << 64)) + "/64"
