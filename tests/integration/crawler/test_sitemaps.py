"""Sitemaps and feeds by a crawler: what is new or changed is fetched, each version once."""

from __future__ import annotations

import gzip
from collections import Counter

from crawlstream_chaos.scripted_site import Answer, CrawlerSite, page
from crawlstream_chaos.scripted_site import serving as serving_pages
from support.crawler.cluster import CrawlerCluster
from support.crawler.ways import both_ways

pytest_plugins = ["support.crawler.fixtures"]

XML = {"Content-Type": "application/xml"}


def sitemap(**pages: str) -> Answer:
    """A sitemap of pages, with the time of each one's last change or without."""
    urls = "".join(
        f"<url><loc>/{name}</loc>{f'<lastmod>{day}</lastmod>' if day else ''}</url>"
        for name, day in pages.items()
    )
    return Answer(gzip.compress(f"<urlset>{urls}</urlset>".encode()), headers=XML)


def index(*names: str) -> Answer:
    """A sitemap index that says nothing of changes."""
    urls = "".join(f"<sitemap><loc>/{name}</loc></sitemap>" for name in names)
    return Answer(f"<sitemapindex>{urls}</sitemapindex>".encode(), headers=XML)


def since(site: CrawlerSite, seen: int) -> Counter[str]:
    """Requests after that number of visits."""
    return Counter(visit.path for visit in site.visits[seen:])


@both_ways
async def test_a_version_is_fetched_once_over_runs(cluster: CrawlerCluster) -> None:
    """Sitemaps each run, a page again when its lastmod is another, one without lastmod once."""
    robots = Answer(b"Sitemap: /index.xml\n", headers={"Content-Type": "text/plain"})
    site_pages = {"/robots.txt": robots, "/index.xml": index("1.xml.gz")}
    found = dict.fromkeys(("/a", "/b", "/c"), page("/below"))
    first = {"/1.xml.gz": sitemap(a="2026-11-20", b="2026-11-21", c="")}
    with serving_pages({**site_pages, **found, **first}) as site:
        request = {"url": site.url("/robots.txt"), "spiderid": "sitemap", "maxdepth": 3}
        with cluster.worker("sitemap"), cluster.worker("link"):
            crawl = await cluster.ask(request)
            await cluster.end_of(crawl, timeout_s=60)
            files = {"/robots.txt": 1, "/index.xml": 1, "/1.xml.gz": 1}
            assert since(site, 0) == {**files, "/a": 1, "/b": 1, "/c": 1}
            await cluster.finish(crawl)
            seen = len(site.visits)
            site.pages["/1.xml.gz"] = sitemap(a="2026-11-20", b="2026-11-22", c="", d="2026-11-22")
            site.pages["/d"] = page()
            await cluster.ask(request)
            await cluster.end_of(crawl, timeout_s=60)
            assert since(site, seen) == {**files, "/b": 1, "/d": 1}
    results = [one for one in cluster.results() if one["url"] == site.url("/1.xml.gz")]
    links = results[0]["links"]
    assert links[0] == {"url": site.url("/a"), "text": "", "lastmod": "2026-11-20"}
    assert "lastmod" not in links[2]
    assert [one["run"] for one in results] == [1, 2]


async def test_pages_are_the_spiders_that_the_crawl_names(cluster: CrawlerCluster) -> None:
    """Under the filters of the crawl, which do not keep it from the sitemaps."""
    pages = {"/1.xml": sitemap(yes="", no="", doc=""), "/yes": page(), "/index.xml": index("1.xml")}
    with serving_pages(pages) as site:
        with cluster.worker("sitemap"):
            crawl = await cluster.ask(
                {
                    "url": site.url("/index.xml"),
                    "spiderid": "sitemap",
                    "maxdepth": 2,
                    "allow_regex": ["/yes$"],
                    "allowed_domains": ["127.0.0.1"],
                    "attrs": {"pages_spider": "sitemap"},
                }
            )
            state = await cluster.end_of(crawl, timeout_s=60)
        assert since(site, 0) == {"/index.xml": 1, "/1.xml": 1, "/yes": 1}
    assert state.filtered_by_reason == {"regex": 2}
