"""A crawl stays in its scope, by links and by redirects, and follows its seed where that moved."""

from __future__ import annotations

from collections import Counter

from crawlstream.model.scope import Scope, scope_fields
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, page
from support.crawler.cluster import CrawlerCluster

pytest_plugins = ["support.crawler.fixtures"]

OLD, NEW, AWAY = "127.0.0.2", "127.0.0.3", "127.0.0.4"


def moved(to: str) -> Answer:
    """A redirect."""
    return Answer(status=302, headers={"Location": to})


def visited(site: CrawlerSite) -> Counter[str]:
    """Host and path of each request, robots.txt left out."""
    return Counter(visit.host + visit.path for visit in site.visits if visit.path != "/robots.txt")


async def test_a_crawl_of_a_host_goes_where_its_seed_has_moved_and_no_further(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """Follows links of the old and the new host; delivers redirects that lead elsewhere."""
    away = site.url("/away", AWAY)
    refresh = f'<meta http-equiv=refresh content="0; url={away}"><a href=/deep>x</a>'
    site.pages |= {
        f"{OLD}/": moved(site.url("/home", NEW)),
        f"{NEW}/home": page("/a", "/out", "/in", site.url("/b", OLD), away),
        f"{NEW}/a": Answer(refresh.encode()),
        f"{NEW}/out": moved(away),
        f"{NEW}/in": moved(site.url("/c", OLD)),
        f"{NEW}/deep": page("/deeper"),
        f"{NEW}/inside": moved("http://10.1.2.3/"),
        **dict.fromkeys((f"{OLD}/b", f"{OLD}/c", f"{NEW}/deeper", f"{AWAY}/away"), page()),
    }
    seed = site.url("/", OLD)
    with cluster.worker():
        scope = scope_fields(Scope.HOST, [seed])
        crawl = await cluster.ask({"url": seed, "maxdepth": 3, **scope})
        state = await cluster.end_of(crawl, timeout_s=60)
        inside = site.url("/inside", NEW)
        refused = await cluster.ask({"url": inside, "crawlid": "inside", "allowed_domains": [NEW]})
        failed = await cluster.end_of(refused, timeout_s=60)
    found = ("home", "a", "out", "in", "deep", "deeper", "inside")
    paths = [f"{OLD}/", f"{OLD}/b", f"{OLD}/c", *(f"{NEW}/{name}" for name in found)]
    assert visited(site) == dict.fromkeys(paths, 1)
    statuses = {result["url"]: result["status_code"] for result in cluster.results()}
    ok = ((NEW, ("home", "a", "deep", "deeper")), (OLD, ("b", "c")))
    assert statuses == {
        site.url("/out", NEW): 302,
        **{site.url(f"/{name}", host): 200 for host, names in ok for name in names},
    }
    assert (state.done, state.redirected, state.failed) == (7, 2, 0)
    # The link, the redirect and the refresh to the other host.
    assert state.filtered_by_reason == {"domain": 3}
    assert (failed.redirected, failed.failed, failed.filtered_by_reason) == (1, 1, {})


async def test_a_sitemap_that_has_moved_away_hands_over_its_pages(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """Reads it where it is now, and its pages there by the other spider, under the same scope."""
    listed = (site.url("/p", NEW), site.url("/gone", NEW), site.url("/x", AWAY))
    urls = "".join(f"<url><loc>{url}</loc><lastmod>2026-11-20</lastmod></url>" for url in listed)
    xml = Answer(f"<urlset>{urls}</urlset>".encode(), headers={"Content-Type": "text/xml"})
    site.pages |= {
        f"{OLD}/sitemap.xml": moved(site.url("/real.xml", NEW)),
        f"{NEW}/real.xml": xml,
        f"{NEW}/p": page(),
        f"{NEW}/gone": moved(site.url("/x", AWAY)),
        f"{AWAY}/x": page(),
    }
    seed = site.url("/sitemap.xml", OLD)
    with cluster.worker("sitemap"), cluster.worker("link"):
        crawl = await cluster.ask(
            {"url": seed, "spiderid": "sitemap", "maxdepth": 1, "allowed_domains": [OLD]}
        )
        state = await cluster.end_of(crawl, timeout_s=60)
    names = (f"{OLD}/sitemap.xml", *(f"{NEW}/{name}" for name in ("real.xml", "p", "gone")))
    assert visited(site) == dict.fromkeys(names, 1)
    assert (state.done, state.redirected) == (3, 1)
    assert state.filtered_by_reason == {"domain": 2}
