"""Pages through proxies: real ones from Debian, and a scripted one."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from crawlstream.boot.addresses import AddressRefused
from crawlstream_chaos.scripted_site import Answer, CrawlerSite
from support.crawler.proxied import Bench
from support.crawler.proxies import dante, small_proxy, tinyproxy
from support.crawler.visitor import Visitor


async def test_tinyproxy_is_gone_through_with_a_password(
    bench: Bench, visitor: Visitor, site: CrawlerSite, secret: CrawlerSite, tmp_path: Path
) -> None:
    """Http and https by CONNECT, a second page in the first one's tunnel; a result names both."""
    bench.environment["WORD"] = "pw"
    with tinyproxy(tmp_path, user="u", password="pw") as proxy:
        await bench.of(proxy.url.replace("pw", "${WORD}"))
        for each in (site, site, secret):
            response = await visitor.fetch(each.url("/"), proxy="de")
            assert response.status == 200
            assert response.ip_address is None
        log = proxy.log.read_text()
    assert bench.routes.known.table
    (known,) = bench.routes.known.table.pools["de"].proxies
    assert visitor.latest
    assert visitor.latest.proxy == {"pool": "de", "id": known.id}
    assert log.count(f"CONNECT 127.0.0.1:{site.port}") == 1
    assert log.count(f"CONNECT 127.0.0.1:{secret.port}") == 1


async def test_tinyproxy_is_asked_for_whole_urls(
    bench: Bench, visitor: Visitor, site: CrawlerSite, secret: CrawlerSite, tmp_path: Path
) -> None:
    """Requests whole URLs if the pool says so, only for http, each with its own host."""
    with tinyproxy(tmp_path) as proxy:
        await bench.of(proxy.url, policy="plain: absolute")
        for url in (site.url("/"), site.url("/", host="127.0.0.2"), secret.url("/")):
            assert (await visitor.fetch(url, proxy="de")).status == 200
        log = proxy.log.read_text()
    assert log.count("GET http://") == 2
    assert log.count(": CONNECT 127") == 1
    assert [visit.host for visit in site.visits] == ["127.0.0.1", "127.0.0.2"]


async def test_dante_is_gone_through(
    bench: Bench, visitor: Visitor, site: CrawlerSite, secret: CrawlerSite, tmp_path: Path
) -> None:
    """SOCKS5, http and https."""
    with dante(tmp_path) as proxy:
        await bench.of(proxy.url)
        for url in (site.url("/"), site.url("/"), secret.url("/")):
            assert (await visitor.fetch(url, proxy="de")).status == 200
        log = proxy.log.read_text()
    assert log.count("pass(1): tcp/connect [") >= 2
    assert {visit.host for visit in site.visits} == {"127.0.0.1"}


@pytest.mark.parametrize("scheme", ["http", "socks5"])
@pytest.mark.parametrize("dns", ["check", "local"])
async def test_a_proxy_is_told_the_name_or_the_address_that_was_vetted(
    bench: Bench, visitor: Visitor, site: CrawlerSite, scheme: str, dns: str
) -> None:
    """Passes on the name or the vetted address, with the proxy's password, never to the site."""
    with small_proxy(
        user="u:x" if scheme == "socks5" else "u", password="p@:%", host="::1"
    ) as proxy:
        login = f"{quote(proxy.user)}:{quote(proxy.password)}"
        await bench.of(f"{scheme}://{login}@{proxy.url}", policy=f"dns: {dns}")
        response = await visitor.fetch(site.url("/", host="localhost"), proxy="de")
        assert response.status == 200
        assert b"X-Mine" not in response.headers
    assert proxy.asked == [f"{'127.0.0.1' if dns == 'local' else 'localhost'}:{site.port}"]
    assert proxy.users == [proxy.user]
    assert site.visits[0].host == "localhost"
    assert site.visits[0].headers.keys() == {"host"}


async def test_the_environment_has_no_say(
    bench: Bench, visitor: Visitor, site: CrawlerSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NO_PROXY does not let a page of a pool out, nor does HTTP_PROXY lead a direct one away."""
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    with small_proxy() as proxy, small_proxy() as other:
        for name in ("http_proxy", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://{other.url}")
        await bench.of(f"http://{proxy.url}")
        assert (await visitor.fetch(site.url("/"), proxy="de")).status == 200
        assert (await visitor.fetch(site.url("/"))).status == 200
    assert proxy.asked == [f"127.0.0.1:{site.port}"]
    assert other.asked == []


@pytest.mark.parametrize("scheme", ["http", "socks5"])
@pytest.mark.parametrize("policy", ["", "dns: local", "plain: absolute"])
async def test_a_target_inside_is_refused_whatever_the_proxy(
    bench: Bench, scheme: str, policy: str
) -> None:
    """The proxy is not even asked: metadata, private addresses, IPv6 forms, the proxy itself."""
    inside = (
        "169.254.169.254",
        "10.0.0.1",
        "[::ffff:169.254.169.254]",
        "[fd00:ec2::254]",
        "0.0.0.0",
    )
    with small_proxy() as proxy, bench.visiting() as visitor:
        await bench.of(f"{scheme}://{proxy.url}", policy=policy)
        for host in inside:
            for url in (f"http://{host}/", f"https://{host}/"):
                with pytest.raises(AddressRefused):
                    await visitor.fetch(url, proxy="de")
        for named in ("de", None):
            with pytest.raises(AddressRefused, match="is a proxy"):
                await visitor.fetch(f"http://127.0.0.1:{proxy.port}/", proxy=named)
        for spelt in ("127.0.0.1.", "[127.0.0.1]"):
            with pytest.raises(AddressRefused, match="is a proxy"):
                bench.routes.refuse_proxies(spelt, proxy.port)
    assert proxy.asked == []


async def test_sessions_of_one_proxy_share_no_tunnel(
    bench: Bench, visitor: Visitor, site: CrawlerSite
) -> None:
    """Each has an address of its own: the provider distinguishes them by the user name."""
    with small_proxy(user="*") as proxy:
        await bench.set(
            "pools: {de: {spread: 3, proxies: [{url:"
            f" 'http://u-{{session}}:p@{proxy.url}', sessions: 3}}]}}}}"
        )
        for _ in range(30):
            assert (await visitor.fetch(site.url("/"), proxy="de")).status == 200
    assert sorted(proxy.users) == ["u-1", "u-2", "u-3"]


async def test_a_kept_tunnel_that_was_closed_is_not_made_anew_for_the_same_grant(
    bench: Bench, visitor: Visitor, site: CrawlerSite
) -> None:
    """The request may have reached the site: the page has lost an attempt, the proxy nothing."""
    site.pages["/dropped"] = Answer(raw=b"")
    with small_proxy() as proxy:
        await bench.of(f"http://{proxy.url}")
        for path, outcome in (("/", 200), ("/dropped", "connection_lost"), ("/", 200)):
            assert await visitor.outcome(site.url(path), proxy="de") == outcome
        assert len(proxy.asked) == 2
    assert site.paths() == ["/", "/dropped", "/"]
