"""Sitemaps of a crawl: which files are read, how many at most, and which pages are fetched."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from scrapy import Request
from scrapy.http import Response

from crawling import ClusterSpider, Outlinks
from crawling.render.rendering_client import RenderingClient
from crawling.robots.cache import KnownFiles
from crawling.robots.rules import RobotsRules, rules_in, sitemaps_in
from crawling.spiders.link import LinkSpider
from crawling.testing import CrawledPage, Outlink, crawl_page
from crawlstream.model.crawl import READS_SITEMAP, Entry
from crawlstream.model.url import origin_of
from support.crawler.leases import lease

HERE = "http://a.com/"
ASKED = {"maxdepth": 3, "sitemaps": "also"}


def file(path: str, level: int = 1, files: int = 9) -> Outlink:
    """A sitemap of a crawl, with its place among all."""
    meta = {READS_SITEMAP: [level, files]}
    return Outlink(HERE + path, READS_SITEMAP, meta, depth=0, seed_url=HERE)


def index(*urls: str) -> str:
    """A sitemap index."""
    listed = "".join(f"<sitemap><loc>{url}</loc></sitemap>" for url in urls)
    return f"<sitemapindex>{listed}</sitemapindex>"


def read(page: Outlink, body: str, spider: type = LinkSpider, **asked: Any) -> CrawledPage:
    """Have a spider read a sitemap."""
    found = crawl_page(spider, page, body, request={**ASKED, **asked})
    assert found.outcome == "done"
    return found


def left_out(found: CrawledPage) -> dict[str, int]:
    """Return what was left out of a page, by reason."""
    return {reason: number for reason, number in found.filtered.items() if number}


def spread(first: Outlink, body_of: Callable[[Outlink], str]) -> Sequence[Outlink]:
    """Return all files that one leads to, as a crawl of them all would read them."""
    known, waiting = [first], deque([first])
    while waiting:
        found = read(page := waiting.popleft(), body_of(page)).outlinks
        known += found
        waiting += found
        assert all(each.depth == page.depth for each in found)
    return known


@pytest.mark.parametrize(("width", "number"), [(1, 3), (3, 10), (50, 12)])
def test_a_file_leads_to_no_more_files_than_its_share(width: int, number: int) -> None:
    """Whatever they list, on three levels."""

    def body_of(page: Outlink) -> str:
        return index(*(f"{page.url}/{each}" for each in range(width)))

    files = spread(file("s.xml", files=12), body_of)
    assert len(files) == number
    assert max(each.url.count("/") for each in files) <= HERE.count("/") + 2


def test_files_beyond_the_share_are_counted() -> None:
    """So are those of other sites, and those of a file that has no place."""
    body = index(f"{HERE}1", "http://x.a.com/2", f"{HERE}3", "http://b.example/4")
    found = read(file("s.xml", files=3), body)
    assert [each.url for each in found.outlinks] == [f"{HERE}1", "http://x.a.com/2"]
    assert left_out(found) == {"sitemap_bound": 1, "domain": 1}
    assert found.results[0]["sitemap"] is True
    assert len(found.results[0]["links"]) == 2
    placeless = Outlink(f"{HERE}s.xml", READS_SITEMAP, seed_url=HERE)
    assert left_out(read(placeless, body)) == {"sitemap_bound": 3, "domain": 1}


def test_a_seed_leads_to_the_robots_txt_of_its_origin() -> None:
    """Where that is not at hand; that leads to the sitemaps that it names, or the usual one."""
    found = crawl_page(LinkSpider, f"{HERE}deep/page?a=1", "", request=ASKED)
    robots, llms_txt = found.outlinks
    assert (robots.url, robots.depth) == (f"{HERE}robots.txt", 0)
    assert (llms_txt.url, llms_txt.depth) == (f"{HERE}llms.txt", 0)
    assert "sitemap" not in found.results[0]
    text = "Sitemap: /1.xml\nSitemap: http://elsewhere.example/2.xml\nDisallow: /\n"
    named = read(robots, text).outlinks
    assert [each.url for each in named] == [f"{HERE}1.xml", "http://elsewhere.example/2.xml"]
    inside = read(robots, text, allowed_domains=["a.com"])
    assert (len(inside.outlinks), left_out(inside)) == (1, {"domain": 1})
    usual = crawl_page(LinkSpider, robots, "", status=404, request=ASKED)
    assert [each.url for each in usual.outlinks] == [f"{HERE}sitemap.xml"]
    none = crawl_page(LinkSpider, usual.outlinks[0], "", status=404, request=ASKED)
    assert (none.outlinks, left_out(none)) == ([], {"no_sitemap": 1})


def feed(href: str, rel: str = "alternate", kind: str = "application/rss+xml") -> str:
    """An element that names a feed."""
    return f"<link rel='{rel}' type='{kind}' href='{href}'>"


def urls_of(body: str, **asked: Any) -> tuple[list[str], dict[str, int]]:
    """Return the files that a seed leads to besides robots.txt, and what was left out."""
    found = crawl_page(LinkSpider, HERE, body, request={**ASKED, **asked})
    assert found.outlinks[0].url == f"{HERE}robots.txt"
    return [each.url for each in found.outlinks[1:]], left_out(found)


def test_a_seed_leads_to_five_feeds_and_the_llms_txt_of_its_origin() -> None:
    """Feeds are in the head, RSS or Atom, each once, and on hosts that the crawl may visit."""
    links = [
        feed("/1", "home ALTERNATE", "Application/Atom+XML; charset=utf-8"),
        *(feed(f"/{number}") for number in (1, 2, 3, 4, 5, 6)),
        *(f"<link rel=alternate hreflang=x{each} href=/x{each}>" for each in range(100)),
        feed("/no", "stylesheet"),
        feed("/no", kind="application/json"),
        f"<template>{feed('/no')}</template>",
    ]
    body = f"<head>{''.join(links)}</head><body>"
    llms_txt = f"{HERE}llms.txt"
    found, refused = urls_of(body)
    assert found == [*(f"{HERE}{number}" for number in (1, 2, 3, 4, 5)), llms_txt]
    assert refused == {"sitemap_bound": 1}
    foreign = feed("http://b.example/f") + feed("f/a") + feed("javascript:1")
    found, refused = urls_of(f"<base href=/b/>{foreign}", allowed_domains=["a.com"])
    assert (found, refused) == ([f"{HERE}b/f/a", llms_txt], {"domain": 1})
    found, _ = urls_of(f"<p>text</p>{foreign}")
    assert "http://b.example/f" in found
    page = f"<meta name=robots content=nofollow>{foreign}"
    assert urls_of(page, directives="obey") == ([llms_txt], {"nofollow": 2})


def test_files_beside_the_sitemaps_lead_to_pages_only() -> None:
    """A feed that is an index is bounded; an llms.txt that is not there does not count."""
    body = f"<head>{feed('/f')}</head>"
    seed = crawl_page(LinkSpider, HERE, body, request=ASKED)
    _, in_head, llms_txt = seed.outlinks
    found = read(in_head, index(f"{HERE}1", f"{HERE}2"))
    assert (found.outlinks, left_out(found)) == ([], {"sitemap_bound": 2})
    listed = read(llms_txt, "# A\n- [One](/1): first\n- [Two](http://b.example/2)\n")
    assert [each.url for each in listed.outlinks] == [f"{HERE}1", "http://b.example/2"]
    assert [each["text"] for each in listed.results[0]["links"]] == ["One", "Two"]
    assert {each.depth for each in listed.outlinks} == {1}
    gone = crawl_page(LinkSpider, llms_txt, "", status=404, request=ASKED)
    assert (gone.outcome, gone.outlinks, left_out(gone)) == ("done", [], {})
    page = read(llms_txt, "<!DOCTYPE html><script>a[0](b)</script>")
    assert (page.outlinks, left_out(page)) == ([], {"sitemap_unread": 1})


def test_pages_below_a_seed_lead_to_no_sitemaps() -> None:
    """Nor do crawls that want none."""
    below, body = Outlink(f"{HERE}b", seed_url=HERE), feed("/f")
    assert not crawl_page(LinkSpider, below, body, request=ASKED).outlinks
    assert not crawl_page(LinkSpider, HERE, body, request={"maxdepth": 3}).outlinks


def test_listed_pages_are_pages_of_the_spider() -> None:
    """Pages are one level below, by ``parse``, judged like links; each is fetched once."""
    urls = [f"{HERE}a", f"{HERE}no", f"{HERE}a", "http://b.example/"]
    body = "".join(f"<url><loc>{url}</loc><lastmod>2026-11-20</lastmod></url>" for url in urls)
    asked: dict[str, Any] = {"allowed_domains": ["a.com"], "deny_regex": ["no$"]}
    found = read(file("s.xml"), f"<urlset>{body}</urlset>", **asked)
    (page,) = found.outlinks
    assert (page.url, page.depth, page.callback, dict(page.meta)) == (f"{HERE}a", 1, None, {})
    assert left_out(found) == {"regex": 1, "domain": 1, "duplicate": 1}


class Follower(ClusterSpider):
    """Follows links in both of the ways that a spider has."""

    name = "follower"

    def parse(self, response: Any, **_kwargs: Any) -> Iterator[Any]:
        """Yield links, a request and the result."""
        yield Outlinks([f"{HERE}1", f"{HERE}2"])
        yield Request(f"{HERE}3", callback=self.parse)
        yield self.result(response)


def test_links_of_pages_are_not_followed_where_only_sitemaps_count() -> None:
    """Not those of a spider of users either, which reads sitemaps all the same."""
    only = {**ASKED, "sitemaps": "only"}
    below = Outlink(f"{HERE}b", seed_url=HERE)
    found = crawl_page(Follower, below, "", request=only)
    assert (found.outlinks, left_out(found)) == ([], {"sitemaps_only": 3})
    assert len(crawl_page(Follower, below, "", request=ASKED).outlinks) == 3
    found = crawl_page(LinkSpider, below, "<a href=/x>x</a>", request=only)
    assert (found.outlinks, found.results[0]["links"]) == ([], [])
    listed = read(file("s.txt"), f"{HERE}a\n{HERE}b\n", Follower, sitemaps="only")
    assert [each.url for each in listed.outlinks] == [f"{HERE}a", f"{HERE}b"]


def test_rules_know_the_sitemaps_of_their_file() -> None:
    """A file without any rule has some, too; at most 101 are kept, and they take memory."""
    files = KnownFiles[RobotsRules]()
    assert sitemaps_in(files, f"{HERE}a") is None
    files.put(origin_of(HERE), None, 60)
    assert sitemaps_in(files, f"{HERE}a") == ()
    rules = rules_in(b"Sitemap: /a\r\nsitemap:/b\n Sitemap : /a\n")
    assert rules is not None
    assert rules.allow(f"{HERE}x", "anybody")
    files.put(origin_of(HERE), rules, 60)
    assert sitemaps_in(files, f"{HERE}a") == ("/a", "/b")
    many = rules_in(b"".join(b"Sitemap: /%d\n" % number for number in range(1000)))
    assert many is not None
    assert (len(many.sitemaps), many.size) == (101, 294)


async def test_a_browser_renders_no_sitemaps() -> None:
    """They are fetched as robots.txt is."""

    class Plain:
        async def fetch(self, request: Request, _page: Any) -> Response:
            """Return an empty response."""
            return Response(request.url)

    renderer: Any = SimpleNamespace(leases=None, settings=None, routes=None)
    client = RenderingClient(renderer, cast("Any", Plain()))
    entry = Entry(url=f"{HERE}s.xml", callback=READS_SITEMAP)
    page: Any = SimpleNamespace(lease=lease(entry=entry))
    assert (await client.fetch(Request(entry.url), page)).url == entry.url
