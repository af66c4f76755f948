"""Pages asked for with TLS profiles: by libcurl, from servers of all ages."""

from __future__ import annotations

import pytest

from crawling.egress.tls import NoProfile
from crawlstream.model.egress.tls import PROFILES
from crawlstream_chaos.scripted_site import Answer, CrawlerSite
from support.crawler.profiled import profiled
from support.crawler.proxied import Bench
from support.crawler.proxies import small_proxy
from support.crawler.tls import TlsSite
from support.crawler.visitor import Visitor


@pytest.fixture
def old(secret: CrawlerSite) -> TlsSite:
    """A server that knows TLS 1.0 and nothing later."""
    assert isinstance(secret, TlsSite)
    secret.grow_old()
    return secret


async def test_an_old_server_is_reached_by_the_profile_for_old_servers_alone(
    bench: Bench, visitor: Visitor, old: TlsSite
) -> None:
    """Directly and through a proxy; the page says so. Handles that are used again forget it."""
    profiled(visitor, bench, PROFILES)
    with small_proxy() as proxy:
        await bench.of(f"http://{proxy.url}")
        for pool in (None, "de"):
            assert await visitor.outcome(old.url("/"), proxy=pool) == "tls"
            assert visitor.latest
            assert visitor.latest.tls is None
            for _ in range(2):
                assert await visitor.outcome(old.url("/"), proxy=pool, tls="legacy") == 200
                assert visitor.latest.tls == "legacy"
        assert await visitor.outcome(old.url("/")) == "tls"
    assert len(old.visits) == 4
    assert old.handshakes == 2  # a direct one and a tunnel: kept for the second page each


async def test_a_pool_has_a_profile_for_its_pages(
    bench: Bench, visitor: Visitor, old: TlsSite, site: CrawlerSite
) -> None:
    """A profile that a page names comes first; without encryption there is none."""
    profiled(visitor, bench, PROFILES)
    with small_proxy() as proxy:
        await bench.of(f"http://{proxy.url}", policy="tls: [legacy]")
        assert await visitor.outcome(old.url("/"), proxy="de") == 200
        assert visitor.latest
        assert visitor.latest.tls == "legacy"
        assert await visitor.outcome(old.url("/"), proxy="de", tls="default") == "tls"
        assert await visitor.outcome(site.url("/"), proxy="de", tls="legacy") == 200
        assert visitor.latest.tls is None


async def test_a_page_waits_where_its_profile_is_not_allowed(
    bench: Bench, visitor: Visitor, secret: CrawlerSite
) -> None:
    """It is released, and no request is sent with another profile than it names."""
    profiled(visitor, bench, ("default",))
    await bench.set("pools: {}")
    with pytest.raises(NoProfile, match="CRAWLSTREAM_TLS_PROFILES") as refused:
        await visitor.fetch(secret.url("/"), tls="legacy")
    assert refused.value.delay_ms > 0
    assert not secret.visits


async def test_a_failed_handshake_costs_one_attempt_and_tells_the_cluster(
    bench: Bench, visitor: Visitor, old: TlsSite
) -> None:
    """The next attempt has the next profile, and so has every page of another worker."""
    profiled(visitor, bench, PROFILES)
    with small_proxy() as proxy, bench.visiting() as other:
        profiled(other, bench, PROFILES)
        await bench.of(f"http://{proxy.url}", policy="tls: [default, legacy]")
        assert await visitor.outcome(old.url("/"), proxy="de") == "tls"
        assert await visitor.outcome(old.url("/"), proxy="de") == 200
        assert await other.outcome(old.url("/"), proxy="de") == 200
        assert other.latest
        assert other.latest.tls == "legacy"
        assert await bench.handshakes.profile("de", "127.0.0.1") == "legacy"


async def test_a_pool_without_proxies_has_profiles_for_direct_pages(
    bench: Bench, visitor: Visitor, old: TlsSite
) -> None:
    """Its fallback says that they leave directly."""
    profiled(visitor, bench, PROFILES)
    await bench.set("pools: {plain: {tls: [default, legacy], fallback: [direct]}}")
    outcomes = [await visitor.outcome(old.url("/"), proxy="plain") for _ in range(2)]
    assert outcomes == ["tls", 200]
    assert visitor.latest
    assert (visitor.latest.tls, visitor.latest.proxy) == ("legacy", None)


@pytest.mark.parametrize("status", [403, 429, 503])
async def test_no_answer_of_a_site_moves_anything(
    bench: Bench, visitor: Visitor, secret: CrawlerSite, status: int
) -> None:
    """A refusal is an answer, with any greeting; so is a connection that breaks later."""
    profiled(visitor, bench, PROFILES)
    secret.pages |= {"/no": Answer(status=status), "/cut": Answer(raw=b"")}
    await bench.set("pools: {plain: {tls: [default, legacy], fallback: [direct]}}")
    assert await visitor.outcome(secret.url("/no"), proxy="plain") == status
    assert await visitor.outcome(secret.url("/cut"), proxy="plain") == "connection_lost"
    assert await bench.handshakes.profile("plain", "127.0.0.1") is None
    assert await visitor.outcome(secret.url("/"), proxy="plain") == 200
    assert visitor.latest
    assert visitor.latest.tls is None


async def test_a_page_that_names_its_profile_has_no_other(
    bench: Bench, visitor: Visitor, old: TlsSite
) -> None:
    """Uses the profile that a page names, whatever its pool would try next."""
    profiled(visitor, bench, PROFILES)
    await bench.set("pools: {plain: {tls: [default, legacy], fallback: [direct]}}")
    for _ in range(2):
        assert await visitor.outcome(old.url("/"), proxy="plain", tls="default") == "tls"
    assert await bench.handshakes.profile("plain", "127.0.0.1") is None
