"""Whole crawls through pools of proxies: crawler processes between real servers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from crawlstream_chaos.scripted_site import Answer, CrawlerSite, page
from support.crawler.cluster import CrawlerCluster, counted
from support.crawler.proxies import SmallProxy, dead_port, small_proxy
from support.crawler.tls import TlsSite
from support.crawler.ways import both_ways
from support.waiting import WaitUntil

pytest_plugins = ["support.crawler.fixtures"]

PATIENCE_S = 180
"""However busy the machine is."""
PAGES = [f"/{number}" for number in range(8)]


@contextmanager
def proxies(count: int) -> Iterator[list[SmallProxy]]:
    """Run that number of proxies for the length of the block."""
    with ExitStack() as stack:
        yield [stack.enter_context(small_proxy()) for _ in range(count)]


def table(*urls: str, more: str = "") -> str:
    """Define one pool, ``de``."""
    return f"pools: {{de: {{proxies: [{', '.join(f'{url!r}' for url in urls)}]}}}}\n{more}"


def targets(proxies: list[SmallProxy]) -> set[str]:
    """Requests that all of them got."""
    return {asked for proxy in proxies for asked in proxy.asked}


@both_ways
async def test_a_crawl_goes_through_its_pool_robots_and_retries_and_redirects_too(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """Every visit came through a proxy, every result names it, and no address is shown."""
    site.pages |= {
        "/": page("/moved", "/flaky", *PAGES),
        "/moved": Answer(status=302, headers={"Location": "/there"}),
        "/there": page(),
        "/flaky": Answer(status=500),
        "/robots.txt": Answer(b"User-agent: *\nDisallow: /0"),
        **dict.fromkeys(PAGES, page()),
    }
    with proxies(2) as both:
        live = [f"http://{both[0].url}", f"socks5://{both[1].url}"]
        await cluster.set_pools(table(*live, f"http://127.0.0.1:{dead_port()}"))
        with cluster.worker(ROBOTSTXT_OBEY="true", RETRY_TIMES="1"):
            crawl = await cluster.feed(site.url("/"), maxdepth=1, proxy="de")
            state = await cluster.end_of(crawl, timeout_s=PATIENCE_S)
    results = cluster.results()
    assert state.admitted
    assert sorted(counted(results).values()) == [1] * (len(PAGES) + 2)
    assert all(result["proxy"]["pool"] == "de" for result in results)
    assert {result["ip"] for result in results} == {None}
    assert {result["attempt"] for result in results if not result["url"].endswith("/flaky")} == {1}
    assert cluster.failures() == {site.url("/0"): "robots"}
    assert targets(both) == {f"127.0.0.1:{site.port}"}


@both_ways
async def test_pages_wait_while_no_proxy_will_do_and_lose_no_attempt(
    cluster: CrawlerCluster, site: CrawlerSite, wait_until: WaitUntil
) -> None:
    """Lets pages wait while no proxy works, and continues by itself when one does."""
    site.pages |= dict.fromkeys(PAGES, page())
    with cluster.worker() as worker, small_proxy(403) as proxy:
        await cluster.set_pools(f"pools: {{de: {{rest: 1, proxies: ['http://{proxy.url}']}}}}")
        crawl = await cluster.feed(*map(site.url, PAGES), proxy="de")
        await wait_until(lambda: len(proxy.asked) > 1, timeout_s=PATIENCE_S)
        await wait_until(lambda: '"outcome":"no_proxy"' in worker.logged())
        assert not site.visits
        proxy.mood = ""
        await cluster.end_of(crawl, timeout_s=PATIENCE_S)
    results = cluster.results()
    assert sorted(counted(results).values()) == [1] * len(PAGES)
    assert {result["attempt"] for result in results} == {1}
    assert cluster.failures() == {}
    assert len(site.visits) == len(PAGES)


@both_ways
async def test_the_operators_word_holds_for_pages_that_name_no_pool(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """Applies the operator's pool by domain, by egress group, else by default; not to `direct`."""
    site.pages |= dict.fromkeys(PAGES, page())
    with proxies(2) as (east, shop):
        await cluster.set_pools(
            f"groups: {{east: east}}\ndomains: {{127.0.0.3: shop}}\npools:\n"
            f"  east: {{proxies: ['http://{east.url}']}}\n"
            f"  shop: {{proxies: ['http://{shop.url}']}}\n"
        )
        with cluster.worker(CRAWLSTREAM_EGRESS_GROUP="east"):
            urls = site.url("/1", "127.0.0.2"), site.url("/2", "127.0.0.3")
            await cluster.end_of(await cluster.feed(*urls), timeout_s=PATIENCE_S)
            direct = await cluster.feed(site.url("/3"), crawlid="d", proxy="direct")
            await cluster.end_of(direct, timeout_s=PATIENCE_S)
    assert east.asked == [f"127.0.0.2:{site.port}"]
    assert shop.asked == [f"127.0.0.3:{site.port}"]
    by_url = {
        result["url"][-1]: result.get("proxy", {}).get("pool") for result in cluster.results()
    }
    assert by_url == {"1": "east", "2": "shop", "3": None}


@both_ways
async def test_a_dead_site_is_found_out_and_its_pages_end_by_name(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """Its proxies are well: they go on with other sites."""
    site.pages |= dict.fromkeys(PAGES, page())
    dead = f"http://127.0.0.9:{dead_port()}/"
    with proxies(2) as both:
        await cluster.set_pools(table(*(f"http://{each.url}" for each in both)))
        with cluster.worker(RETRY_TIMES="1"):
            crawl = await cluster.feed(dead, *map(site.url, PAGES), proxy="de")
            await cluster.end_of(crawl, timeout_s=PATIENCE_S)
    assert cluster.failures() == {dead: "proxy"}
    assert sorted(counted(cluster.results()).values()) == [1] * len(PAGES)


@both_ways
async def test_a_crawl_greets_as_its_profile_says(
    cluster: CrawlerCluster, secret: TlsSite, wait_until: WaitUntil
) -> None:
    """Robots.txt, redirects and links too, on both ways; what is not allowed here waits."""
    secret.wants_grease = True
    secret.pages |= {
        "/": page("/moved", "/a"),
        "/moved": Answer(status=302, headers={"Location": "/b"}),
        "/a": page(),
        "/b": page(),
        "/robots.txt": Answer(b"User-agent: *\nDisallow: /a"),
    }
    await cluster.set_pools("pools: {}")
    settings = {"ROBOTSTXT_OBEY": "true", "CRAWLSTREAM_TLS_PROFILES": "chrome"}
    with cluster.worker(**settings) as worker:
        crawl = await cluster.feed(secret.url("/"), maxdepth=1, tls="chrome")
        await cluster.end_of(crawl, timeout_s=PATIENCE_S)
        await cluster.feed(secret.url("/"), crawlid="old", tls="legacy")
        await wait_until(lambda: '"outcome":"no_tls_profile"' in worker.logged())
    results = cluster.results()
    assert {result["url"]: result["tls_profile"] for result in results} == {
        secret.url(path): "chrome" for path in ("/", "/b")
    }
    assert cluster.failures() == {secret.url("/a"): "robots"}
    assert {visit.headers["user-agent"] for visit in secret.visits} == {
        results[0]["request_headers"]["User-Agent"][0]
    }
