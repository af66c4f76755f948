"""Crawls that find pages by the sitemaps of their seeds' sites: all pages, each once, bounded."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from crawlstream.model.state import CrawlState
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, page
from crawlstream_chaos.scripted_site import serving as serving_pages
from support.crawler.cluster import CrawlerCluster, counted
from support.crawler.ways import both_ways

pytest_plugins = ["support.crawler.fixtures"]

XML = {"Content-Type": "application/xml"}
OBEDIENT = {"ROBOTSTXT_OBEY": "true"}
DEEP = [f"/deep/{number}" for number in range(40)]


def robots(*sitemaps: str, rules: str = "User-agent: *\nDisallow: /private\n") -> Answer:
    """A robots.txt that names sitemaps."""
    lines = "".join(f"Sitemap: {each}\n" for each in sitemaps)
    return Answer((rules + lines).encode(), headers={"Content-Type": "text/plain"})


def sitemap(urls: Iterable[str], kind: str = "url", root: str = "urlset") -> Answer:
    """A sitemap, or an index, compressed."""
    listed = "".join(
        f"<{kind}><loc>{url}</loc><lastmod>2026-11-20</lastmod></{kind}>" for url in urls
    )
    return Answer(gzip.compress(f"<{root}>{listed}</{root}>".encode()), headers=XML)


def index(*urls: str) -> Answer:
    """A sitemap index."""
    return sitemap(urls, "sitemap", "sitemapindex")


def visits(site: CrawlerSite) -> Counter[str]:
    """Requests by path, without those for the rules of robots.txt and for the llms.txt."""
    return Counter(path for path in site.paths() if path != "/llms.txt")


async def crawled(
    cluster: CrawlerCluster, site: CrawlerSite, env: Mapping[str, str] = OBEDIENT, **fields: Any
) -> CrawlState:
    """Crawl a site from its first page to the end; the ledger is exact."""
    request = {"url": site.url("/"), "maxdepth": 2, "allowed_domains": ["127.0.0.1"], **fields}
    with cluster.worker(**env):
        crawl = await cluster.ask(request)
        state = await cluster.end_of(crawl, timeout_s=60)
    results = [one for one in cluster.results() if one["crawlid"] == crawl.crawlid]
    assert state.admitted == len(results) + sum(state.failed_by_reason.values())
    return state


@both_ways
@pytest.mark.parametrize("use", ["also", "only"])
async def test_pages_that_only_sitemaps_list_are_all_fetched_once(
    cluster: CrawlerCluster, use: str
) -> None:
    """Fetch pages that links lead to as well once; with ``only`` no link of a page is followed."""
    pages = {
        "/robots.txt": robots("/index.xml", "/index.xml"),
        "/index.xml": index("/1.xml", "/2.xml", "/3.xml"),
        "/1.xml": sitemap(DEEP[:20]),
        "/2.xml": sitemap([*DEEP[10:], "/", "/private", "/no.jpg"]),
        "/": page("/linked", DEEP[0]),
        "/linked": page(),
        **dict.fromkeys(DEEP, page("/linked", "/below")),
        "/below": page(),
    }
    files = {"/index.xml": 1, "/1.xml": 1, "/2.xml": 1, "/3.xml": 1}
    with serving_pages(pages) as site:
        state = await crawled(cluster, site, sitemaps=use)
        links = {"/linked": 1, "/below": 1} if use == "also" else {}
        assert visits(site) == {"/": 1, **files, **dict.fromkeys(DEEP, 1), **links}
    assert state.failed_by_reason == {"robots": 1}
    assert state.filtered_by_reason["no_sitemap"] == 1
    assert state.filtered_by_reason["extension"] == 1
    results = cluster.results()
    assert set(counted(results).values()) == {1}
    marked = {one["url"].removeprefix(site.url("")) for one in results if one.get("sitemap")}
    assert marked == {*files, "/llms.txt"}
    (second,) = [one for one in results if one["url"] == site.url("/2.xml")]
    assert second["links"][0]["lastmod"] == "2026-11-20"
    assert {one["depth"] for one in results if one["url"] == site.url(DEEP[-1])} == {1}


@both_ways
async def test_pages_that_only_feeds_and_llms_txt_list_are_all_fetched(
    cluster: CrawlerCluster,
) -> None:
    """Find all pages of a site without sitemap that its home page does not link to."""
    in_atom, in_rss, in_text = (
        [f"/{name}/{number}" for number in range(20)] for name in ("atom", "rss", "text")
    )
    atom = "".join(f"<entry><link href='{path}'/></entry>" for path in in_atom)
    rss = "".join(f"<item><link>{path}</link></item>" for path in [*in_rss, *in_atom[:5]])
    text = "# Site\n" + "".join(f"- [Page]({path}): a page\n" for path in [*in_text, *in_rss[:5]])
    feeds = "<link rel=alternate type='application/atom+xml' href=/feed.atom>"
    feeds += "<link rel=alternate type='application/rss+xml' href=/feed.rss>"
    feeds += "<link rel=alternate type='application/rss+xml' href=http://127.0.0.9:1/far.rss>"
    home = Answer(f"<html><head>{feeds}</head><body>".encode())
    pages = {
        "/robots.txt": robots(),
        "/": home,
        "/feed.atom": Answer(f"<feed>{atom}</feed>".encode(), headers=XML),
        "/feed.rss": Answer(f"<rss><channel>{rss}</channel></rss>".encode(), headers=XML),
        "/llms.txt": Answer(text.encode(), headers={"Content-Type": "text/markdown"}),
        **dict.fromkeys((*in_atom, *in_rss, *in_text), home),
    }
    with serving_pages(pages) as site:
        state = await crawled(cluster, site, sitemaps="also")
        files = ("/", "/sitemap.xml", "/feed.atom", "/feed.rss", "/llms.txt")
        assert Counter(site.paths()) == dict.fromkeys((*files, *in_atom, *in_rss, *in_text), 1)
    assert state.filtered_by_reason == {"domain": 1, "duplicate": 10, "no_sitemap": 1}


async def test_hostile_indexes_are_bounded(cluster: CrawlerCluster) -> None:
    """By the number of files, by levels, and to their site; a list of itself ends."""
    endless: dict[str, Any] = {}
    for number in range(100):
        more = [f"/endless/{100 * number + each}.xml" for each in range(100)]
        foreign = "http://127.0.0.9:1/other.xml"
        endless[f"/endless/{number}.xml"] = index(*more, foreign, "/endless/0.xml")
    pages = {
        "/robots.txt": robots("/endless/1.xml", "/loop.xml"),
        "/loop.xml": index("/loop.xml"),
        "/": page(),
        **endless,
    }
    hosts = {"allowed_domains": ["127.0.0.1", "127.0.0.9"]}
    with serving_pages(pages) as site:
        env = {**OBEDIENT, "CRAWLSTREAM_SITEMAP_FILES": "7"}
        state = await crawled(cluster, site, env, sitemaps="also", **hosts)
        seen = visits(site)
        assert seen["/endless/1.xml"] == 1
        assert sum(seen.values()) <= 1 + 2 * 7
        assert sum(number for path, number in seen.items() if "endless" in path) == 7
    assert state.filtered_by_reason["sitemap_bound"] >= 94
    assert state.filtered_by_reason["domain"] >= 1
    assert not any("127.0.0.9" in one["url"] for one in cluster.results())


async def test_sitemaps_without_a_line_in_robots(cluster: CrawlerCluster) -> None:
    """The usual place is tried; it counts if nothing is there, and robots.txt has its say."""
    pages = {"/": page("/a"), "/a": page(), "/sitemap.xml": sitemap(["/b"]), "/b": page()}
    with serving_pages(pages) as site:
        await crawled(cluster, site, sitemaps="also")
        assert visits(site) == {"/": 1, "/a": 1, "/sitemap.xml": 1, "/b": 1}
    with serving_pages({"/": page("/a"), "/a": page(), "/robots.txt": robots()}) as site:
        state = await crawled(cluster, site, sitemaps="only", crawlid="none")
        assert visits(site) == {"/": 1, "/sitemap.xml": 1}
        assert state.filtered_by_reason == {"no_sitemap": 1}
    forbidding = robots(rules="User-agent: *\nDisallow: /s")
    with serving_pages({**pages, "/robots.txt": forbidding}) as site:
        state = await crawled(cluster, site, sitemaps="only", crawlid="forbidden")
        assert visits(site) == {"/": 1}
        assert state.failed_by_reason == {"robots": 1}


async def test_a_crawl_that_ignores_robots_reads_its_sitemaps(cluster: CrawlerCluster) -> None:
    """As a page that is paid for; rules for other paths do not hold it back."""
    pages = {
        "/robots.txt": robots("/one.xml", rules="User-agent: *\nDisallow: /\n"),
        "/one.xml": sitemap(["/a"]),
        "/": page(),
        "/a": page(),
    }
    with serving_pages(pages) as site:
        await crawled(cluster, site, {}, sitemaps="only")
        assert visits(site) == {"/": 1, "/one.xml": 1, "/a": 1}
        assert sum(each.path == "/robots.txt" for each in site.visits) == 1


async def test_sitemaps_move_with_their_seed(cluster: CrawlerCluster) -> None:
    """Read those of the host where the seed leads; a sitemap may move on its own host."""
    pages = {
        "/robots.txt": robots("/old.xml", "http://127.0.0.3:1/far.xml"),
        "/old.xml": Answer(status=301, headers={"Location": "/new.xml"}),
        "/new.xml": sitemap(["/a"]),
        "/a": page(),
    }
    with serving_pages(pages) as site:
        site.pages["127.0.0.1/"] = Answer(
            status=301, headers={"Location": site.url("/", "127.0.0.2")}
        )
        site.pages["127.0.0.2/"] = page()
        with cluster.worker(**OBEDIENT):
            fields = {"maxdepth": 1, "allowed_domains": ["127.0.0.1"], "sitemaps": "only"}
            crawl = await cluster.ask({"url": site.url("/"), **fields})
            state = await cluster.end_of(crawl, timeout_s=60)
        fetched = {each.path for each in site.visits if each.host == "127.0.0.2"}
        assert fetched == {"/", "/robots.txt", "/llms.txt", "/old.xml", "/new.xml", "/a"}
    assert state.filtered_by_reason == {"domain": 1}
