"""Attribute a failed connection through a proxy, by libcurl's figures alone.

The figures, in this order: whether the request was about to be written (PREREQFUNCTION), the status
of CONNECT, the step at which SOCKS failed, whether the proxy was reached at all. Error texts are
not read, and libcurl's error codes only where they are unambiguous: 7 is five different failures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pycurl

from crawling.egress.blame import Blame, blame_of_connect

_SOCKS_FAILED: Mapping[int, Blame] = {
    19: Blame.PATH,  # reply 5: connection refused
    20: Blame.PATH,  # reply 1: general failure
    21: Blame.PATH,  # reply 4: host unreachable
    22: Blame.PATH,  # reply 3: network unreachable
    23: Blame.DENIED,  # reply 2: not allowed by its rules
    24: Blame.PATH,  # reply 6: TTL expired
    12: Blame.PASSWORD,  # the proxy accepts no offered authentication
    33: Blame.PASSWORD,
}
"""By CURLINFO_PROXY_ERROR (the numbers of curl's CURLproxycode); all others are the proxy's."""


_TLS = frozenset({pycurl.E_SSL_CONNECT_ERROR, pycurl.E_PEER_FAILED_VERIFICATION})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a transfer through a proxy failed, in libcurl's figures."""

    number: int
    """libcurl's error code."""
    connect_code: int = 0
    """Status of CONNECT; 0: none came, or none was asked for."""
    proxy_error: int = 0
    was_reached: bool = True
    """True if the TCP connection to the proxy stood."""
    was_paid: bool = False
    """True if the request was about to be written."""
    is_tls_of_proxy: bool = False
    """True if the proxy is spoken to through TLS, and CONNECT goes inside that."""


def blame_for(end: Ending) -> Blame:
    """Return the blame for a failed transfer."""
    if end.was_paid:
        return Blame.SITE
    if end.proxy_error:
        return _SOCKS_FAILED.get(end.proxy_error, Blame.PROXY)
    if end.connect_code >= 300:
        return blame_of_connect(end.connect_code)
    return _unanswered(end) if end.was_reached else Blame.PROXY


def _unanswered(end: Ending) -> Blame:
    """Return the blame where the proxy was reached and has not reported a refusal."""
    is_tunnel = bool(end.connect_code)
    if end.number in _TLS:
        return Blame.PROXY if end.is_tls_of_proxy and not is_tunnel else Blame.TLS
    # A proxy that says nothing may wait for a site that says nothing.
    is_open = is_tunnel or end.number == pycurl.E_OPERATION_TIMEDOUT
    return Blame.PATH if is_open else Blame.PROXY
