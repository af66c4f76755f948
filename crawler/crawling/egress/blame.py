"""Whose failure it is, of a request that went through a proxy."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any


class Blame(Enum):
    """Where a request through a proxy ended."""

    PROXY = auto()
    """The proxy's, certainly: nothing has reached the site."""
    PASSWORD = auto()
    """The proxy's: it rejects user name and password."""
    DENIED = auto()
    """The proxy's: it refuses to connect to this site."""
    PATH = auto()
    """Unclear: the path between proxy and site failed, or the site."""
    TLS = auto()
    """The handshake with the site failed, inside the tunnel."""
    SITE = auto()
    """The request had been written; later failures are reported by other means."""

    @property
    def is_proxys(self) -> bool:
        """Return whether the site has nothing to do with it, so that another proxy may be tried."""
        return self in _OF_PROXIES


_OF_PROXIES = frozenset({Blame.PROXY, Blame.PASSWORD, Blame.DENIED})

_CONNECT_REFUSED: Mapping[int, Blame] = {
    400: Blame.PROXY,
    401: Blame.PASSWORD,  # tinyproxy's word for a wrong password
    403: Blame.DENIED,
    405: Blame.DENIED,
    407: Blame.PASSWORD,
    501: Blame.PROXY,
}


def blame_of_connect(status: int) -> Blame:
    """Return the blame for a refused CONNECT; most causes are behind the proxy."""
    return _CONNECT_REFUSED.get(status, Blame.PATH)


def blame_in(status: int, headers: Mapping[bytes, Any]) -> Blame | None:
    """Return whether an answer to a request for a whole URL is the proxy's own, and means that.

    It says so in headers that sites do not send; None: it is the site's.
    """
    if status == 407:
        return Blame.PASSWORD
    is_own = b"X-Squid-Error" in headers or b"error=" in _joined(headers, b"Proxy-Status")
    if not is_own:
        return None
    return Blame.DENIED if status == 403 else Blame.PATH


def _joined(headers: Mapping[bytes, Any], name: bytes) -> bytes:
    return b",".join(headers.getlist(name)) if name in headers else b""  # type: ignore[attr-defined]
