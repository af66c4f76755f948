"""A visitor that asks with TLS profiles."""

from __future__ import annotations

from collections.abc import Sequence

from crawling.client.profiled import ProfiledClient
from crawling.egress.tls import TlsChoice
from support.crawler.proxied import Bench
from support.crawler.visitor import Visitor


def profiled(visitor: Visitor, bench: Bench, allowed: Sequence[str]) -> TlsChoice:
    """Let a visitor ask with these profiles from now on; what chooses among them."""
    choice = TlsChoice(bench.handshakes, allowed)
    visitor.client = ProfiledClient(visitor.client, bench.routes, choice)
    return choice
