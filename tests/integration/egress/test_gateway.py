"""The gateway: who gets out by it, where to, and what is known of that afterwards."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator

import pytest

from crawling.egress.blame import Blame
from crawling.egress.route import Route
from crawling.failures import ProxyTrouble, TransferFailed
from crawling.gateway import gateway as room
from crawling.gateway.gateway import Gateway
from crawling.lease.expired import GrantExpired
from crawling.lease.leases import Leases
from crawlstream.boot.addresses import AddressRefused
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, page, serving
from support.crawler.engine import Engine, engine, gateway_of
from support.crawler.proxied import Bench
from support.crawler.proxies import SmallProxy, dead_port, small_proxy
from support.crawler.visitor import Visitor
from support.waiting import wait_until


@pytest.fixture
async def gateway(bench: Bench, visitor: Visitor) -> AsyncIterator[Gateway]:
    """A gateway that goes by the pools of the bench."""
    async with gateway_of(bench, visitor) as gateway:
        yield gateway


@pytest.fixture
def proxy() -> Iterator[SmallProxy]:
    """A proxy that wants a password."""
    with small_proxy(user="u", password="p@:%") as proxy:
        yield proxy


async def route_by(bench: Bench, scheme: str, address: str, policy: str = "") -> Route | None:
    """The route through a proxy; None: directly."""
    if scheme == "direct":
        return None
    await bench.of(f"{scheme}://u:p%40%3A%25@{address}", policy=policy)
    assert bench.routes.known.table
    pool = bench.routes.known.table.pools["de"]
    (proxy,) = pool.proxies
    return Route(pool, proxy, proxy.credentials(os.environ))


ROUTES = ("direct", "http", "socks5")


@pytest.mark.parametrize("scheme", ROUTES)
async def test_tunnels_lead_out_by_the_route_of_their_token(
    bench: Bench, gateway: Gateway, site: CrawlerSite, proxy: SmallProxy, scheme: str
) -> None:
    """And are counted: bytes both ways, told to whom before the first is sent, open or not."""
    route, told = await route_by(bench, scheme, proxy.url), list[tuple[str, int]]()
    with gateway.admit(route, before_send=lambda *where: told.append(where)) as way_out:
        async with engine(gateway, way_out) as client:
            assert await client.connect("localhost", site.port) == 200
            assert (told, way_out.tunnels, way_out.sent) == ([], 1, 0)
            for _ in range(2):
                status, body = await client.get("localhost")
                assert (status, body) == (200, page().body)
        await wait_until(lambda: way_out.tunnels == 0)
        assert told == [("localhost", site.port)]
        assert way_out.sent == 2 * len(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert way_out.received > 2 * len(body)
        assert way_out.failure_of("localhost", site.port) is None
    assert len(site.visits) == 2
    assert proxy.asked == ([] if scheme == "direct" else [f"localhost:{site.port}"])


@pytest.mark.parametrize("scheme", ROUTES)
async def test_tls_goes_through_as_it_is(
    bench: Bench, gateway: Gateway, secret: CrawlerSite, proxy: SmallProxy, scheme: str
) -> None:
    """The handshake is between the engine and the site."""
    route = await route_by(bench, scheme, proxy.url)
    with gateway.admit(route) as way_out:
        async with engine(gateway, way_out) as client:
            assert await client.connect("127.0.0.1", secret.port) == 200
            await client.start_tls()
            assert (await client.get("127.0.0.1"))[0] == 200


@pytest.mark.parametrize(
    "way", [*((each, "") for each in ROUTES), ("http", "plain: absolute")], ids="-".join
)
async def test_each_request_by_its_whole_url_goes_to_its_own_host(
    bench: Bench,
    gateway: Gateway,
    site: CrawlerSite,
    proxy: SmallProxy,
    way: tuple[str, str],
) -> None:
    """Though they come on one connection; the token reaches neither site nor proxy."""
    scheme, policy = way
    route = await route_by(bench, scheme, proxy.url, policy)
    with gateway.admit(route) as way_out, serving({"/b": Answer(b"other")}) as other:
        async with engine(gateway, way_out) as client:
            for url, said in ((site.url("/"), page().body), (other.url("/b"), b"other")) * 2:
                host = url.split("/")[2]
                first = f"GET {url} HTTP/1.1"
                status, head = await client.ask(first, f"Host: {host}", "Connection: X-A", "X-A: 1")
                assert status == 200
                assert await client.body(head) == said
        for each in (site, other):
            assert [visit.headers["host"] for visit in each.visits] == [
                f"127.0.0.1:{each.port}"
            ] * 2
            assert all(visit.headers.keys() == {"host", "connection"} for visit in each.visits)
        assert way_out.failure_of("127.0.0.1", site.port) is None
    if scheme != "direct":
        whole = [site.url("/"), other.url("/b")] * 2
        tunnels = [f"127.0.0.1:{site.port}", f"127.0.0.1:{other.port}"] * 2
        assert proxy.asked == (whole if policy else tunnels)


async def test_a_body_is_forwarded_however_it_is_framed(
    gateway: Gateway, site: CrawlerSite
) -> None:
    """By its length or in chunks."""
    with gateway.admit(None) as way_out:
        async with engine(gateway, way_out) as client:
            for framing, body in (
                ("Content-Length: 3", b"a=b"),
                ("Transfer-Encoding: chunked", b"3\r\na=b\r\n0\r\n\r\n"),
            ):
                first = f"POST {site.url('/')} HTTP/1.1"
                status, head = await client.ask(first, "Host: x", framing, body=body)
                assert status == 200
                await client.body(head)
    assert [visit.method for visit in site.visits] == ["POST", "POST"]


async def test_nobody_gets_out_without_a_token_that_is_good(
    gateway: Gateway, site: CrawlerSite
) -> None:
    """Not with none, not with a void one, not with the right name and another password."""
    void = gateway.admit(None)
    void.close()
    forged = gateway.admit(None)
    forged.password = void.user
    for owner in (None, void, forged):
        async with engine(gateway, owner) as client:
            assert await client.connect("127.0.0.1", site.port) == 407
            status, head = await client.ask(f"GET {site.url('/')} HTTP/1.1", "Host: x")
            assert status == 407
            assert b"Proxy-Authenticate: Basic" in head
    assert site.visits == []


@pytest.mark.parametrize("scheme", ROUTES)
async def test_targets_inside_are_refused_by_every_route(
    bench: Bench, gateway: Gateway, proxy: SmallProxy, scheme: str
) -> None:
    """Proxies get no request for them; the gateway and the proxies are not targets either."""
    route = await route_by(bench, scheme, proxy.url)
    places = [("169.254.169.254", 80), ("10.0.0.1", 443), ("::ffff:169.254.169.254", 80)]
    places += [("2852039166", 80), ("0xa9.254.169.254", 80), ("127.0.0.1", gateway.port)]
    places += [("localhost", gateway.port), ("127.0.0.1", proxy.port)] if route else []
    with gateway.admit(route) as way_out:
        for host, port in places:
            async with engine(gateway, way_out) as client:
                assert await client.connect(host, port) == 403
                where = f"[{host}]" if ":" in host else host
                status, head = await client.ask(f"GET http://{where}:{port}/ HTTP/1.1", "Host: x")
                assert status == 403
                assert b"error=destination_ip_prohibited" in head
            assert isinstance(way_out.failure_of(host, port), AddressRefused)
        async with engine(gateway, way_out) as client:
            assert await client.connect("nowhere.invalid", 80) == 502
        reasons = {each.reason for each in way_out.refused}
        assert {"special", "own", "dns"} <= reasons <= {"special", "own", "dns", "proxy"}
    assert proxy.asked == []


FAULTS: dict[tuple[str, int | str], Blame] = {
    ("http", "close"): Blame.PROXY,
    ("http", "noise"): Blame.PROXY,
    ("http", 400): Blame.PROXY,
    ("http", 401): Blame.PASSWORD,
    ("http", 403): Blame.DENIED,
    ("http", 407): Blame.PASSWORD,
    ("http", 501): Blame.PROXY,
    ("http", 404): Blame.PATH,
    ("http", 503): Blame.PATH,
    ("http", "late"): Blame.PATH,
    ("https", ""): Blame.PROXY,
    ("socks5", "close"): Blame.PROXY,
    ("socks5", "noise"): Blame.PROXY,
    ("socks5", 2): Blame.DENIED,
    ("socks5", 7): Blame.PROXY,
    ("socks5", 8): Blame.PROXY,
    **{("socks5", reply): Blame.PATH for reply in (1, 3, 4, 5, 6)},
    ("socks5", "late"): Blame.PATH,
}


@pytest.mark.parametrize("scheme", ["http", "https", "socks5"])
async def test_who_is_to_blame_is_known(
    bench: Bench, gateway: Gateway, site: CrawlerSite, proxy: SmallProxy, scheme: str
) -> None:
    """By where it ended, as for pages that libcurl fetches; who comes through next clears it."""
    route = await route_by(bench, scheme, proxy.url)
    target = ("127.0.0.1", site.port)
    with gateway.admit(route) as way_out:
        for mood, blame in ((mood, FAULTS[each, mood]) for each, mood in FAULTS if each == scheme):
            proxy.mood = mood
            async with engine(gateway, way_out) as client:
                if await client.connect(*target) == 200:
                    with pytest.raises(ConnectionError):
                        await client.get("127.0.0.1")
            trouble = way_out.failure_of(*target)
            assert isinstance(trouble, ProxyTrouble), mood
            assert trouble.blame is blame, mood
            assert str(proxy.port) not in str(trouble)
        proxy.mood = ""
        async with engine(gateway, way_out) as client:
            comes = await client.connect(*target) == 200
        assert comes is (way_out.failure_of(*target) is None) is (scheme != "https")
    assert site.visits == []


async def test_a_proxy_that_is_gone_or_wants_another_password(
    bench: Bench, gateway: Gateway, site: CrawlerSite, proxy: SmallProxy
) -> None:
    """Is to blame; so is one that says of a whole URL that it has no answer."""
    cases = [(f"127.0.0.1:{dead_port()}", "", Blame.PROXY)]
    proxy.password = proxy.url
    cases += [(proxy.url, "", Blame.PASSWORD), (proxy.url, "plain: absolute", Blame.PASSWORD)]
    for scheme in ("http", "socks5"):
        for address, policy, blame in cases:
            route = await route_by(bench, scheme, address, policy)
            with gateway.admit(route) as way_out:
                async with engine(gateway, way_out) as client:
                    assert (await client.ask(f"GET {site.url('/')} HTTP/1.1", "Host: x"))[0] == 502
                trouble = way_out.failure_of("127.0.0.1", site.port)
                assert isinstance(trouble, ProxyTrouble)
                assert trouble.blame is blame
    assert site.visits == []


async def test_sites_that_cannot_be_reached_directly_are_told_by_reason(gateway: Gateway) -> None:
    """Nothing listens there, or the listener sends nothing at all."""
    port = dead_port()
    with gateway.admit(None) as way_out, serving({"/": Answer(raw=b"")}) as mute:
        async with engine(gateway, way_out) as client:
            assert await client.connect("127.0.0.1", port) == 502
        async with engine(gateway, way_out) as client:
            assert await client.connect("127.0.0.1", mute.port) == 200
            with pytest.raises(ConnectionError):
                await client.get("127.0.0.1")
        for where, reason in ((port, "refused"), (mute.port, "connection_lost")):
            failure = way_out.failure_of("127.0.0.1", where)
            assert isinstance(failure, TransferFailed)
            assert failure.reason == reason


async def test_nothing_is_written_that_its_owner_objects_to(
    gateway: Gateway, site: CrawlerSite
) -> None:
    """A grant that has expired while the way was made, to name one."""

    def object_to(_host: str, _port: int) -> None:
        raise GrantExpired

    with gateway.admit(None, before_send=object_to) as way_out:
        async with engine(gateway, way_out) as client:
            assert await client.connect("127.0.0.1", site.port) == 200
            with pytest.raises(ConnectionError):
                await client.get("127.0.0.1")
        async with engine(gateway, way_out) as client:
            with pytest.raises(ConnectionError):
                await client.ask(f"GET {site.url('/')} HTTP/1.1", "Host: x")
        assert isinstance(way_out.failure_of("127.0.0.1", site.port), GrantExpired)
        assert {each.reason for each in way_out.refused} == {"grant"}
    assert site.visits == []


@pytest.mark.parametrize("cause", ["redis", "frozen", "closed", "ended"])
async def test_nothing_leaves_by_a_tunnel_that_was_open_when_the_right_to_send_was_lost(
    gateway: Gateway,
    site: CrawlerSite,
    monkeypatch: pytest.MonkeyPatch,
    cause: str,
) -> None:
    """Redis silent, the process frozen, the page over, the gateway closed: the bytes end here."""
    way_out = gateway.admit(None)
    async with engine(gateway, way_out) as client:
        assert await client.connect("127.0.0.1", site.port) == 200
        assert (await client.get("127.0.0.1"))[0] == 200
        if cause == "redis":
            monkeypatch.setattr(Leases, "is_in_contact", property(lambda _: False))
        elif cause == "frozen":
            gateway._ticked_at -= room.LONGEST_GAP_S + 1
        elif cause == "closed":
            way_out.close()
        else:
            gateway.close()
        with pytest.raises(ConnectionError):
            await client.get("127.0.0.1", "/late")
    await wait_until(lambda: way_out.tunnels == 0)
    assert site.paths() == ["/"]


async def test_a_token_has_its_limits(gateway: Gateway) -> None:
    """A limit of tunnels at once, and of bytes in all; cuts are counted."""
    pages = {"/": Answer(b"x" * 100_000)}
    with serving(pages) as site, gateway.admit(None, most_bytes=150_000, most_tunnels=1) as way_out:
        async with engine(gateway, way_out) as one, engine(gateway, way_out) as other:
            assert await one.connect("127.0.0.1", site.port) == 200
            assert await other.connect("127.0.0.1", site.port) == 429
            assert (await one.get("127.0.0.1"))[0] == 200
            assert way_out.received < 150_000
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await one.get("127.0.0.1")
        assert way_out.is_over
        assert way_out.received < 300_000
        assert [each.reason for each in way_out.refused] == ["tunnels", "bytes"]


async def _hostile(client: Engine, said: bytes) -> bytes:
    client.writer.write(said)
    client.writer.write_eof()
    return await asyncio.wait_for(client.reader.read(), 20)


async def test_what_is_no_request_is_no_trouble(gateway: Gateway, site: CrawlerSite) -> None:
    """Noise, heads without an end, targets that are none: refused or cut, and it goes on."""
    with gateway.admit(None) as way_out:
        async with engine(gateway, way_out) as client:
            login = client.login
        for first in (
            *(
                "GET / HTTP/1.1",
                "CONNECT x HTTP/1.1",
                "CONNECT x:0 HTTP/1.1",
                "CONNECT :80 HTTP/1.1",
            ),
            *(
                "GET https://x/ HTTP/1.1",
                "GET http://u@x/ HTTP/1.1",
                "GET http://x:99999/ HTTP/1.1",
            ),
            *("GET ftp://x/ HTTP/1.1", "GET http:/// HTTP/1.1", "CONNECT x:1:2:3 HTTP/1.1"),
        ):
            async with engine(gateway, way_out) as client:
                head = f"{first}\r\nHost: x\r\n{login}\r\n\r\n".encode()
                answer = await _hostile(client, head)
                assert answer.split(b" ")[1] in {b"400", b"403", b"502"}, first
        for noise in (
            b"\x16\x03\x01\x02\x00\x01",
            b"GET " + b"x" * 300_000,
            b"\r\n\r\n",
            b"A B C\r\n\r\n",
        ):
            async with engine(gateway, way_out) as client:
                assert not (await _hostile(client, noise)).startswith(b"HTTP/1.1 2")
        async with engine(gateway, way_out) as client:
            assert await client.connect("127.0.0.1", site.port) == 200


async def test_it_listens_at_one_address_of_this_machine(gateway: Gateway) -> None:
    """Not at another one of loopback either."""
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.2", gateway.port)
