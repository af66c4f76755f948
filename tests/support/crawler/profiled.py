"""A visitor that asks with TLS profiles."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from crawling.client.client_of import FetchClient
from crawling.client.http_client import HttpClient
from crawling.client.profiled import ProfiledClient
from crawling.egress.tls import TlsChoice
from crawling.tls.multi import libcurl_of
from support.crawler.proxied import Bench
from support.crawler.visitor import Visitor


def profiled(visitor: Visitor, bench: Bench, allowed: Sequence[str]) -> None:
    """Let a visitor ask with these profiles of libcurl from now on."""

    def no_browser(_profile: str) -> FetchClient:
        raise AssertionError("a browser is asked for")

    choice = TlsChoice(bench.handshakes, allowed)
    visitor.client = ProfiledClient(visitor.client, bench.routes, choice, no_browser)


@asynccontextmanager
async def with_browsers(
    visitor: Visitor, bench: Bench, allowed: Sequence[str], *, verifies: bool | None = None
) -> AsyncIterator[None]:
    """Let a visitor ask with these profiles for the length of the block."""
    plain, choice = visitor.client, TlsChoice(bench.handshakes, allowed)
    browsers = list[HttpClient]()

    def browser_of(profile: str) -> HttpClient:
        browsers.append(browser_client(bench, visitor, profile, verifies=verifies))
        return browsers[-1]

    visitor.client = ProfiledClient(plain, bench.routes, choice, browser_of)
    try:
        yield
    finally:
        visitor.client = plain
        for browser in browsers:
            browser.close()


def browser_client(
    bench: Bench, visitor: Visitor, profile: str, *, verifies: bool | None = None
) -> HttpClient:
    """A client that greets like the browser of a profile; close it."""
    return HttpClient(
        visitor.leases,
        visitor.resolver,
        timeout_s=5.0,
        most_bytes=1 << 20,
        verifies=verifies,
        routes=bench.routes,
        libcurl=libcurl_of(profile),
    )
