"""Pages that a browser makes for a pool of proxies: all that they ask for goes there."""

from __future__ import annotations

from pathlib import Path

import pytest
from redis.asyncio import Redis

from crawling.egress.routes import NoProxy
from crawling.failures import PathFailed
from crawlstream_chaos.scripted_site import Answer, serving
from support.crawler.proxied import Bench
from support.crawler.proxies import dead_port, small_proxy
from support.crawler.rendering import rendering
from support.crawler.spa import html, made_by, script
from support.crawler.tls import TlsSite, make_certificate

ASKS = made_by("fetch('/data')", "<script src=/app.js></script><iframe src=/frame></iframe>")
PAGES = {
    "/": ASKS,
    "/app.js": script("document.title = 'made'"),
    "/data": Answer(b"{}"),
    "/frame": html("<p>in a frame"),
}


@pytest.mark.parametrize("policy", ["plain: absolute", ""], ids=["urls", "tunnels"])
async def test_a_page_and_what_it_asks_for_leave_by_one_proxy(redis: Redis, policy: str) -> None:
    """The first proxy is dead, the next one takes over under the same grant; no other is used.

    The proxy's own log, which has every URL, shows that all of it went there, and not past it.
    """
    pools = Bench(redis)
    with small_proxy() as proxy, serving(PAGES) as site:
        await pools.of(f"http://127.0.0.1:{dead_port()}", f"http://{proxy.url}", policy=policy)
        async with rendering(pools.routes) as bench:
            for _ in range(2):
                came = await bench.render(site.url("/"), proxy="de")
                assert b"<title>made</title>" in came.body
                assert bench.told["requests"] == 3
                assert bench.latest is not None
                assert bench.latest.proxy is not None
        assert sorted(site.paths()) == sorted([*PAGES, *PAGES])
        if policy:
            assert sorted(proxy.asked) == sorted(map(site.url, [*PAGES, *PAGES]))
        else:
            assert set(proxy.asked) == {f"127.0.0.1:{site.port}"}


async def test_a_site_behind_tls_comes_through_a_proxy(redis: Redis, tmp_path: Path) -> None:
    """In tunnels of the same proxy, within the bound of its rule."""
    pools = Bench(redis)
    with small_proxy() as proxy, serving(PAGES, kind=TlsSite) as site:
        assert isinstance(site, TlsSite)
        site.certify(make_certificate(tmp_path))
        await pools.of(f"http://{proxy.url}")
        async with rendering(pools.routes) as bench:
            bench.rule(render=2)
            await bench.render(site.url("/"), proxy="de")
            assert bench.told["requests"] == 2
        assert len(site.paths()) == 3
        assert set(proxy.asked) == {f"127.0.0.1:{site.port}"}


async def test_nothing_leaves_past_a_proxy_that_fails(redis: Redis) -> None:
    """Whatever it does, the page has no answer, and the site sees no request."""
    pools = Bench(redis)
    async with rendering(pools.routes) as bench:
        with serving(PAGES) as site:
            for mood in (403, 502, "close", "noise"):
                with small_proxy(mood) as proxy:
                    await pools.of(f"http://{proxy.url}")
                    with pytest.raises((NoProxy, PathFailed)):
                        await bench.render(site.url("/"), proxy="de")
            assert not site.visits
