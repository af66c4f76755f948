"""How a new connection is made: straight to the address that the guard has vetted.

Twisted's endpoint for names lets the addresses of a host race each other, and what it builds for
that is two fifths of the CPU time of a download over a new connection. Where a host has one address
there is nothing to race.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scrapy.exceptions import CannotResolveHostError
from twisted.internet.endpoints import (
    HostnameEndpoint,
    TCP4ClientEndpoint,
    TCP6ClientEndpoint,
    _WrapperEndpoint,
)

from crawling.net.address_guard import GuardedResolver
from crawlstream.boot.addresses import Address, AddressRefused

# ruff: noqa: SLF001  an endpoint exposes its target nowhere else; test_crawler_endpoints.py watches


class Straight:
    """Stands in for an endpoint of Twisted's, with TLS or without."""

    def __init__(
        self, endpoint: Any, resolver: GuardedResolver, only: Sequence[Address] = ()
    ) -> None:
        """``only``: vetted addresses of its host that are to be connected to; empty: all."""
        self._only = only
        self._endpoint = endpoint
        self._resolver = resolver

    def connect(self, factory: Any) -> Any:
        """A Deferred of a connected protocol, as of the endpoint itself."""
        endpoint = self._endpoint
        if isinstance(endpoint, _WrapperEndpoint):
            inner = self._without_race(endpoint._wrappedEndpoint)
            endpoint = _WrapperEndpoint(inner, endpoint._wrapperFactory)
        return self._without_race(endpoint).connect(factory)

    def _without_race(self, endpoint: Any) -> Any:
        """Return the endpoint of a host's only address; else the given one, which resolves it."""
        if not isinstance(endpoint, HostnameEndpoint) or endpoint._badHostname:
            return endpoint
        try:
            known = self._only or self._resolver.known(endpoint._hostText, endpoint._port)
        except (AddressRefused, CannotResolveHostError):
            return endpoint
        if known is None or (len(known) != 1 and not self._only):
            return endpoint
        kind: Any = TCP4ClientEndpoint if known[0].version == 4 else TCP6ClientEndpoint
        where = endpoint._reactor, str(known[0]), endpoint._port
        return kind(*where, timeout=endpoint._timeout, bindAddress=endpoint._bindAddress)
