"""A visitor that asks with TLS profiles."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from crawling.client.client_of import Client
from crawling.client.profiled import ProfiledClient
from crawling.egress.tls import TlsChoice
from crawling.tls.client import BrowserTlsClient
from support.crawler.engine import gateway_of
from support.crawler.proxied import Bench
from support.crawler.visitor import Visitor


def profiled(visitor: Visitor, bench: Bench, allowed: Sequence[str]) -> None:
    """Let a visitor ask with these profiles of libcurl from now on."""

    def no_browser() -> Client:
        raise AssertionError("a browser is asked for")

    choice = TlsChoice(bench.handshakes, allowed)
    visitor.client = ProfiledClient(visitor.client, bench.routes, choice, no_browser)


@asynccontextmanager
async def browsing(
    bench: Bench, visitor: Visitor, *, verifies: bool | None = None
) -> AsyncIterator[BrowserTlsClient]:
    """A client with the TLS of browsers, for the length of the block."""
    async with gateway_of(bench, visitor) as gateway:
        client = BrowserTlsClient(
            visitor.holds,
            lambda: gateway,
            bench.routes,
            timeout_s=5.0,
            most_bytes=1 << 20,
            verifies=verifies,
        )
        try:
            yield client
        finally:
            client.close()


@asynccontextmanager
async def with_browsers(
    visitor: Visitor, bench: Bench, allowed: Sequence[str], *, verifies: bool | None = None
) -> AsyncIterator[None]:
    """Let a visitor ask with these profiles for the length of the block."""
    plain, choice = visitor.client, TlsChoice(bench.handshakes, allowed)
    async with browsing(bench, visitor, verifies=verifies) as browsers:
        visitor.client = ProfiledClient(plain, bench.routes, choice, lambda: browsers)
        try:
            yield
        finally:
            visitor.client = plain
