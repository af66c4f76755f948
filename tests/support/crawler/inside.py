"""Hosts that lead inside, in the many ways in which they can be written."""

from __future__ import annotations

ADDRESSES = (
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.1.2.3",
    "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1",
    "192.168.1.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1",
    "239.255.255.255", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::7f00:1", "::10.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
    "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "100::1",
    "2001::1", "2001:0:7f00:1::", "2001:db8::1", "2002:7f00:1::", "2002:a00:1::1", "fc00::1",
    "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1", "3fff::1", "5f00::1",
    "168.63.129.16", "161.26.0.10", "166.8.1.1", "::ffff:168.63.129.16", "64:ff9b::a83f:8110",
    "4000::1", "1::1", "100:0:0:1::1", "e000::1", "2606:4700::5efe:7f00:1",
    "2606:4700::200:5efe:a00:1",
)  # fmt: skip


def _disguises(address: str) -> list[str]:
    """Texts that the system's resolver reads as the same IPv4 address."""
    a, b, c, d = map(int, address.split("."))
    whole = a << 24 | b << 16 | c << 8 | d
    return [
        str(whole), hex(whole), f"0{whole:o}", f"{a}.{whole & 0xFFFFFF}",
        f"{a}.{b}.{c << 8 | d}", f"0x{a:x}.0x{b:x}.0x{c:x}.0x{d:x}", f"0{a:o}.0{b:o}.0{c:o}.0{d:o}",
        f"{a}.{b}.{c}.0x{d:x}", f"0x{a:x}.{b}.{c}.{d}",
    ]  # fmt: skip


HOSTS = (
    *ADDRESSES,
    *(form for one in ADDRESSES if ":" not in one for form in _disguises(one)),
    *(form for one in ADDRESSES if ":" in one for form in (one.upper(), f"{one}%1")),
    *("localhost", "LOCALHOST", "localhost.", "127.0.0.1.", "127.1", "127.0.1", "0"),
)
"""The addresses, those of IPv4 by other bases and with fewer parts, those of IPv6 in capitals and
with a zone, and names of this machine."""
