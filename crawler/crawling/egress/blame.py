"""Whose failure it is, of a request that went through a proxy."""

from __future__ import annotations

from enum import Enum, auto


class Blame(Enum):
    """Where a request through a proxy ended."""

    PROXY = auto()
    """The proxy's, surely: nothing has reached the site."""
    PASSWORD = auto()
    """The same: it does not take user name and password."""
    DENIED = auto()
    """The same: it does not go to this site."""
    PATH = auto()
    """That of the way between proxy and site, or of the site: nobody here can tell."""
    TLS = auto()
    """The handshake with the site failed, inside the tunnel."""
    SITE = auto()
    """The request had been written; what happened then is told by other means."""

    @property
    def is_proxys(self) -> bool:
        """Whether the site has nothing to do with it, so that another proxy may be tried."""
        return self in _OF_PROXIES


_OF_PROXIES = frozenset({Blame.PROXY, Blame.PASSWORD, Blame.DENIED})
