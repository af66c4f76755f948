"""Sites that are greeted like a browser does: by curl_cffi's libcurl."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from crawling.failures import TransferFailed
from crawling.lease import leases
from crawling.lease.expired import GrantExpired
from crawling.tls.targets import TARGETS, require
from crawlstream.errors import ConfigError
from crawlstream.model.egress.tls import PROFILES
from crawlstream_chaos.scripted_site import Answer, CrawlerSite
from support.crawler.greetings import Greeting, listening
from support.crawler.profiled import with_browsers
from support.crawler.proxied import Bench
from support.crawler.proxies import dead_port, small_proxy
from support.crawler.tls import TlsSite
from support.crawler.visitor import Visitor
from support.waiting import wait_until

BROWSERS = tuple(TARGETS)


@pytest.fixture
async def browsing(bench: Bench, visitor: Visitor) -> AsyncIterator[Visitor]:
    """A visitor with all profiles; no pools."""
    await bench.set("pools: {}")
    async with with_browsers(visitor, bench, PROFILES):
        yield visitor


@pytest.fixture
def picky(secret: CrawlerSite) -> TlsSite:
    """A server that closes the connection when it is not greeted as Chrome does."""
    assert isinstance(secret, TlsSite)
    secret.wants_grease = True
    return secret


async def test_each_profile_greets_in_its_own_way_directly_and_through_a_proxy(
    bench: Bench, browsing: Visitor
) -> None:
    """A greeting repeats, unlike others, and unlike libcurl's; one connection an attempt."""
    found = dict[str, set[Greeting]]()
    with listening() as listener, small_proxy() as proxy:
        await bench.of(f"http://{proxy.url}")
        for profile in ("default", *BROWSERS):
            for pool in (None, None, "de"):
                url = f"https://127.0.0.1:{listener.port}/"
                assert await browsing.outcome(url, proxy=pool, tls=profile) == "tls"
            found[profile] = set(listener.heard)
            assert len(listener.heard) == 3
            listener.heard.clear()
    assert all(len(greetings) == 1 for greetings in found.values())
    assert len(set.union(*found.values())) == 1 + len(BROWSERS)


@pytest.mark.parametrize("profile", BROWSERS)
async def test_requests_are_ours_whatever_the_greeting(
    browsing: Visitor, secret: CrawlerSite, profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its headers and no others; no cookie comes back, no redirect is followed, bodies as sent."""
    with small_proxy() as other:
        for name in ("https_proxy", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://{other.url}")
        gone = {"Location": "/", "Set-Cookie": "a=b"}
        packed = Answer(b"\x1f\x8bno", headers={"Content-Encoding": "gzip"})
        secret.pages |= {"/gone": Answer(status=302, headers=gone), "/z": packed}
        headers = {"User-Agent": "example-bot/1.0", "Accept-Language": "de"}
        for path, status in (("/gone", 302), ("/a/../gone", 404), ("/", 200)):
            response = await browsing.fetch(secret.url(path), tls=profile, headers=headers)
            assert response.status == status
            assert str(response.ip_address) == "127.0.0.1"
        assert (await browsing.fetch(secret.url("/z"), tls=profile)).body == b"\x1f\x8bno"
        assert other.asked == []
    assert browsing.latest
    assert browsing.latest.tls == profile
    visits = secret.visits
    assert [visit.path for visit in visits] == ["/gone", "/a/../gone", "/", "/z"]
    assert visits[0].headers.keys() == {"host", "user-agent", "accept-language"}
    assert visits[2].headers["user-agent"] == "example-bot/1.0"
    assert visits[3].headers.keys() == {"host"}


async def test_bodies_and_methods_are_sent(browsing: Visitor, secret: CrawlerSite) -> None:
    """POST with its body, HEAD without one of the answer; the certificate must hold for a body."""
    assert await browsing.outcome(secret.url("/"), tls="chrome", method="HEAD") == 200
    post = {"method": "POST", "body": b"a\0b"}
    assert await browsing.outcome(secret.url("/"), tls="chrome", **post) == "certificate"
    assert [visit.method for visit in secret.visits] == ["HEAD"]


async def test_a_connection_is_kept_and_no_request_is_sent_twice(
    browsing: Visitor, secret: CrawlerSite
) -> None:
    """Each spends its grant; one on a kept connection that dies has lost an attempt."""
    assert isinstance(secret, TlsSite)
    secret.pages["/cut"] = Answer(raw=b"")
    outcomes = [
        await browsing.outcome(secret.url(path), tls="chrome") for path in ("/", "/", "/cut", "/")
    ]
    assert outcomes == [200, 200, "connection_lost", 200]
    assert [visit.path for visit in secret.visits] == ["/", "/", "/cut", "/"]
    assert secret.handshakes == 2


async def test_many_connections_are_kept_side_by_side(
    browsing: Visitor, secret: CrawlerSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No bound of libcurl's own ends one that a page has begun to use."""
    assert isinstance(secret, TlsSite)
    for limit in ("START_BY_S", "CONTACT_WITHIN_S"):
        # Many handshakes at once may take longer on a busy machine than a grant lasts.
        monkeypatch.setattr(leases, limit, 5.0)
    urls = [secret.url("/", f"127.0.0.{number}") for number in range(1, 25)]
    for _ in range(3):
        outcomes = await asyncio.gather(*(browsing.outcome(url, tls="chrome") for url in urls))
        assert outcomes == [200] * len(urls)
    assert secret.handshakes == len(urls)


async def test_nothing_is_written_for_a_page_that_is_in_other_hands(
    browsing: Visitor, secret: CrawlerSite
) -> None:
    """Not on a new connection, nor on a kept one."""
    assert await browsing.outcome(secret.url("/"), tls="chrome") == 200
    for _ in range(2):
        page = browsing.page(secret.url("/"), tls="chrome")
        asked = asyncio.ensure_future(browsing.fetch_page(page))
        await asyncio.sleep(0)
        browsing.leases.lose(0, [page.token])
        with pytest.raises(GrantExpired):
            await asked
    assert len(secret.visits) == 1


async def test_what_takes_too_long_or_is_too_large_ends(
    browsing: Visitor, secret: CrawlerSite
) -> None:
    """At once; what was open for it is closed."""
    secret.pages |= {"/slow": Answer(after_s=5), "/large": Answer(b"x" * (2 << 20))}
    meta = {"download_timeout": 0.3}
    assert await browsing.outcome(secret.url("/slow"), tls="chrome", meta=meta) == "timeout"
    assert await browsing.outcome(secret.url("/large"), tls="chrome") == "too_large"
    assert await browsing.outcome(f"https://127.0.0.1:{dead_port()}/", tls="chrome") == "refused"
    assert await browsing.outcome("https://nobody.invalid/", tls="chrome") == "dns"


async def test_a_large_body_waits_for_others(browsing: Visitor, secret: CrawlerSite) -> None:
    """Its connection is not read while there is no room, and its clock stands still."""
    secret.pages["/large"] = Answer(b"x" * 786_432)
    oldest = [browsing.page(f"http://a.test/{n}") for n in range(3)]
    for page in oldest:
        browsing.budget.weigh(page, 8 << 20)
    asked = asyncio.ensure_future(
        browsing.outcome(secret.url("/large"), tls="chrome", meta={"download_timeout": 0.5})
    )
    await wait_until(lambda: len(browsing.budget._waiting) == 1)
    await asyncio.sleep(0.7)
    assert not asked.done()
    for page in oldest:
        browsing.budget.drop(page)
    assert await asked == 200


async def test_a_pool_goes_on_to_a_browser_where_a_server_wants_one(
    bench: Bench, browsing: Visitor, picky: TlsSite
) -> None:
    """Blame and proxies are as with libcurl: a dead proxy is passed over under the same grant."""
    with small_proxy() as proxy:
        await bench.of(
            f"http://127.0.0.1:{dead_port()}",
            f"socks5://{proxy.url}",
            policy="tls: [default, chrome], rest: 0",
        )
        outcomes = [await browsing.outcome(picky.url("/"), proxy="de") for _ in range(2)]
        assert outcomes == ["tls", 200]
        assert browsing.latest
        assert browsing.latest.tls == "chrome"
        assert browsing.latest.proxy
        assert proxy.asked
        assert await bench.handshakes.profile("de", "127.0.0.1") == "chrome"


async def test_what_a_proxy_does_wrong_is_its_own(bench: Bench, browsing: Visitor) -> None:
    """As by libcurl, row by row: by its numbers, not by its texts."""
    with small_proxy() as proxy:
        await bench.of(f"http://{proxy.url}")
        for mood in (502, "late"):
            proxy.mood = mood
            with pytest.raises(TransferFailed):
                await browsing.fetch(f"https://127.0.0.1:{dead_port()}/", proxy="de", tls="chrome")
        (proxy_id,) = bench.routes.book.busy
        assert bench.routes.book.busy[proxy_id] == 0


def test_a_profile_that_is_not_installed_is_an_error_of_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It says what to install; the others need nothing."""
    monkeypatch.setattr("crawling.tls.targets.find_spec", lambda _: None)
    require(["default", "legacy"])
    with pytest.raises(ConfigError, match=r"chrome, safari in .* install tls`"):
        require(["default", "chrome", "safari"])
