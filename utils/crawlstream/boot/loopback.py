"""Names of this machine: what a browser may be led to under another name is none of them."""

from __future__ import annotations

import re
from ipaddress import ip_address

_HOST = re.compile(r"(?:\[([^\[\]]*)\]|([^:\[\]]*))(?::\d*)?")
"""Form of a Host header: a name or an address, IPv6 in brackets; a port."""


def is_loopback(name: str) -> bool:
    """Return whether a host name or address without a port is this machine's own."""
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def is_loopback_host(header: str) -> bool:
    """Return whether a Host header, which may have a port, names this machine."""
    found = _HOST.fullmatch(header)
    return found is not None and is_loopback((found[1] or found[2] or "").lower())
