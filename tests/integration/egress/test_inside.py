"""Hosts that lead inside, however they are written and whichever way a page leaves."""

from __future__ import annotations

import os

import pytest
from scrapy import Request

from crawling.client.client_of import FetchClient
from crawling.egress.route import Route
from crawling.gateway.gateway import Gateway
from crawling.net.address_guard import GuardedResolver
from crawling.page.page import Page
from crawling.page.scrapy_request import PAGE
from crawlstream.boot.addresses import Guard, Interfaces
from crawlstream_chaos.scripted_site import CrawlerSite
from support.crawler.engine import engine, gateway_of
from support.crawler.inside import HOSTS
from support.crawler.profiled import browser_client
from support.crawler.proxied import Bench
from support.crawler.proxies import small_proxy
from support.crawler.visitor import Visitor

WAYS = (
    ("direct", ""),
    *(("http", policy) for policy in ("", "dns: local", "plain: absolute")),
    *(("socks5", policy) for policy in ("", "dns: local")),
)


_REFUSALS = {"AddressRefused", "CannotResolveHostError"}


async def _ask_gateway(gateway: Gateway, route: Route | None, host: str, port: int) -> set[str]:
    """Why the gateway has no tunnel there, and no answer to the whole URL."""
    found = set[str]()
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    with gateway.admit(route) as way_out:
        for first in (f"CONNECT {place} HTTP/1.1", f"GET http://{place}/ HTTP/1.1"):
            async with engine(gateway, way_out) as client:
                assert (await client.ask(first, "Host: x"))[0] in {403, 502}, host
            found.add(type(way_out.failure_of(host, port)).__name__)
    return found


async def _ask_client(visitor: Visitor, pool: str | None, host: str, port: int) -> str:
    """A libcurl request whose URL leads there in the end is refused, too."""
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return await _refusal(visitor.client, visitor.page(f"http://{place}/", proxy=pool), place)


async def _ask_as_chrome(
    browsers: FetchClient, visitor: Visitor, pool: str | None, place: str
) -> str:
    """A request with the TLS of a browser is refused, too."""
    page = visitor.page(f"https://{place}/", proxy=pool)
    page.tls = "chrome"
    return await _refusal(browsers, page, place, "https")


async def _refusal(client: FetchClient, page: Page, place: str, scheme: str = "http") -> str:
    request = Request(f"{scheme}://{place}/", meta={PAGE: page})
    with pytest.raises(Exception, match=r".") as failed:
        await client.fetch(request, page)
    return type(failed.value).__name__


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
async def test_no_way_leads_inside(
    bench: Bench, visitor: Visitor, site: CrawlerSite, way: tuple[str, str]
) -> None:
    """Reaches no internal site by libcurl, gateway or browser; not even a proxy is requested."""
    scheme, policy = way
    resolver = GuardedResolver(Guard(own=Interfaces()), None)
    visitor.resolver = visitor.client._resolver = resolver
    assert len(HOSTS) > 300
    with small_proxy() as proxy:
        await bench.of(f"{'http' if scheme == 'direct' else scheme}://{proxy.url}", policy=policy)
        assert bench.routes.known.table
        pool = bench.routes.known.table.pools["de"]
        route = Route(pool, pool.proxies[0], pool.proxies[0].credentials(os.environ))
        browsers = browser_client(bench, visitor, "chrome")
        async with gateway_of(bench, visitor) as gateway:
            for host in HOSTS:
                named = None if scheme == "direct" else "de"
                assert await _ask_client(visitor, named, host, site.port) in _REFUSALS, host
                found = await _ask_gateway(gateway, route if named else None, host, site.port)
                assert found <= _REFUSALS, host
            for host in () if policy else HOSTS:
                place = f"[{host}]:{site.port}" if ":" in host else f"{host}:{site.port}"
                named = None if scheme == "direct" else "de"
                assert await _ask_as_chrome(browsers, visitor, named, place) in _REFUSALS, host
        browsers.close()
        assert proxy.asked == []
    assert site.visits == []
