"""Blame, by the answers of Debian's proxies: libcurl and the gateway agree."""

from __future__ import annotations

from pathlib import Path

from scrapy import Request

from crawling.egress.blame import Blame
from crawling.egress.route import Route
from crawling.failures import ProxyTrouble
from crawling.gateway.gateway import Gateway
from crawling.page.scrapy_request import PAGE
from crawlstream_chaos.scripted_site import CrawlerSite
from support.crawler.engine import engine, gateway_of
from support.crawler.proxied import Bench
from support.crawler.proxies import dante, dead_port, squid, tinyproxy
from support.crawler.visitor import Visitor


class Judge:
    """Asks for pages through one proxy, by both ways."""

    def __init__(self, bench: Bench, visitor: Visitor, gateway: Gateway) -> None:
        self._bench = bench
        self._visitor = visitor
        self._gateway = gateway

    async def of(self, proxy: str, *urls: str, policy: str = "") -> list[set[Blame | int]]:
        """Status of each page, or the blame for its absence."""
        await self._bench.of(proxy, policy=policy)
        assert self._bench.routes.known.table
        pool = self._bench.routes.known.table.pools["de"]
        (one,) = pool.proxies
        route = Route(pool, one, one.credentials({}))
        return [
            {await self._by_libcurl(route, url), await self._by_gateway(route, url)} for url in urls
        ]

    async def _by_libcurl(self, route: Route, url: str) -> Blame | int:
        page = self._visitor.page(url)
        request = Request(url, meta={PAGE: page})
        try:
            status: int = (await self._visitor.client.fetch_by(route, request, page)).status
        except ProxyTrouble as trouble:
            return trouble.blame
        return status

    async def _by_gateway(self, route: Route, url: str) -> Blame | int:
        host, port = url.split("/")[2].split(":")
        with self._gateway.admit(route) as way_out:
            async with engine(self._gateway, way_out) as client:
                status, _ = await client.ask(f"GET {url} HTTP/1.1", f"Host: {host}:{port}")
            trouble = way_out.failure_of(host, int(port))
        return trouble.blame if isinstance(trouble, ProxyTrouble) else status


async def test_squid(bench: Bench, visitor: Visitor, site: CrawlerSite) -> None:
    """Tunnels and whole URLs, by IPv4 and IPv6; ports that it denies, sites that are dead."""
    good, dead, denied = site.url("/"), f"http://127.0.0.1:{dead_port()}/", "http://127.0.0.1:9/"
    ports = (site.port, int(dead.split(":")[2].strip("/")))
    async with gateway_of(bench, visitor) as gateway:
        judge = Judge(bench, visitor, gateway)
        with squid(tunnels_to=ports) as proxy:
            for url in (proxy.url, proxy.url.replace("127.0.0.1", "[::1]")):
                found = await judge.of(url, good, dead, denied)
                assert found == [{200}, {Blame.PATH}, {Blame.DENIED}]
            log = proxy.log.read_text()
            assert log.count(f"CONNECT 127.0.0.1:{site.port}") >= 2  # Tunnels that are over.
            assert "GET" not in log
            found = await judge.of(proxy.url, good, dead, policy="plain: absolute")
            assert found == [{200}, {Blame.PATH}]
            assert proxy.log.read_text().count(f"GET {good}") == 2
    assert len(site.visits) == 6


async def test_squid_with_a_password(bench: Bench, visitor: Visitor, site: CrawlerSite) -> None:
    """The right one, another one, none."""
    async with gateway_of(bench, visitor) as gateway:
        judge = Judge(bench, visitor, gateway)
        with squid(user="u", password="pw", tunnels_to=(site.port,)) as proxy:
            for policy in ("", "plain: absolute"):
                for login, outcome in (
                    ("u:pw@", 200),
                    ("u:px@", Blame.PASSWORD),
                    ("", Blame.PASSWORD),
                ):
                    url = proxy.url.replace("u:pw@", login)
                    assert await judge.of(url, site.url("/"), policy=policy) == [{outcome}]
    assert len(site.visits) == 4


async def test_dante(bench: Bench, visitor: Visitor, site: CrawlerSite, tmp_path: Path) -> None:
    """A site that it goes to, one that it does not, one that is dead; and logins of its machine."""
    urls = site.url("/"), f"http://127.0.0.1:{dead_port()}/", site.url("/", host="127.0.0.3")
    async with gateway_of(bench, visitor) as gateway:
        judge = Judge(bench, visitor, gateway)
        with dante(tmp_path, blocked="127.0.0.3") as proxy:
            assert await judge.of(proxy.url, *urls) == [{200}, {Blame.PATH}, {Blame.DENIED}]
        with dante(tmp_path, method="username") as proxy:
            assert await judge.of(proxy.url, urls[0]) == [{Blame.PASSWORD}]
            wrong = proxy.url.replace("//", "//nobody-here:pw@")
            assert await judge.of(wrong, urls[0]) == [{Blame.PASSWORD}]
    assert len(site.visits) == 2


async def test_tinyproxy(bench: Bench, visitor: Visitor, site: CrawlerSite, tmp_path: Path) -> None:
    """A port that it denies, a site that is dead, another password, which it calls 401."""
    dead = dead_port()
    urls = site.url("/"), f"http://127.0.0.1:{dead}/", "http://127.0.0.1:9/"
    async with gateway_of(bench, visitor) as gateway:
        judge = Judge(bench, visitor, gateway)
        with tinyproxy(tmp_path, user="u", password="pw", tunnels_to=(site.port, dead)) as proxy:
            assert await judge.of(proxy.url, *urls) == [{200}, {Blame.PATH}, {Blame.DENIED}]
            for login in ("u:px@", ""):
                url = proxy.url.replace("u:pw@", login)
                assert await judge.of(url, urls[0]) == [{Blame.PASSWORD}]
    assert len(site.visits) == 2
