"""Archived pages bring their images and styles, within the bounds of further requests."""

from __future__ import annotations

import gzip
import signal
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

from crawlstream.model.throttle_table import ThrottleRule
from crawlstream_chaos.scripted_site import Answer, Page, serving
from support.crawler.cluster import WIDE_OPEN, CrawlerCluster, counted
from support.crawler.ways import both_ways

pytest_plugins = ["support.crawler.fixtures"]

CDN = "127.0.0.2"
CSS, PNG = {"Content-Type": "text/css"}, {"Content-Type": "image/png"}


def picture(name: str) -> Answer:
    """Return an image whose body has its name."""
    return Answer(b"\x89PNG\1" + name.encode(), headers=PNG)


def html(markup: str) -> Answer:
    """Return a page."""
    return Answer(markup.encode())


def site_of(page: str, **further: Page) -> dict[str, Page]:
    """Return a site with a page, and images ``/1.png`` to ``/9.png``."""
    images = {f"/{number}.png": picture(f"{number}") for number in range(1, 10)}
    return {"/": html(page), **images, **further}


async def crawl(
    cluster: CrawlerCluster, url: str, **request: Any
) -> tuple[Mapping[str, Any], list[dict[str, Any]]]:
    """Return the result of a page, and the records of the requisites so far."""
    seed = {"url": url, "archive": True, "requisites": True, **request}
    await cluster.end_of(await cluster.ask(seed), timeout_s=30)
    return cluster.results()[-1], cluster.records(cluster.topics.requisites)


@both_ways
async def test_requisites_of_a_page_have_records_of_their_own(cluster: CrawlerCluster) -> None:
    """Requisites of other hosts, styles and srcset are requested; forbidden ones are named."""
    packed = gzip.compress(b"@import '/more.css'; b{background:url(5.png)}")
    pages: dict[str, Page] = {
        "/more.css": Answer(b"i{background:url(/9.png)}", headers=CSS),
        "/robots.txt": Answer(b"User-agent: *\nDisallow: /6.png", headers=PNG),
        "/s.css": Answer(packed, headers={**CSS, "Content-Encoding": "gzip"}),
        "/old.png": Answer(status=301, headers={"Location": "/7.png"}),
    }
    with serving(site_of("", **pages)) as site:
        markup = f"""<link rel=stylesheet href=/s.css><img src="1.png#x" srcset="2.png 2x,
            {{}}3.png"><img src=/6.png><img src={{}}/6.png><p style="background: url('4.png')">
            <img src=/old.png>
            <img src=data:,x><img src=ftp://{CDN}/x><a href=/8.png>no requisite</a>"""
        site.pages["/"] = html(markup.format(site.url("/", CDN), site.url("", CDN)))
        with cluster.worker(ROBOTSTXT_OBEY="true"):
            page, records = await crawl(cluster, site.url("/"))
    came = {record["url"]: record for record in records}
    paths = ["/1.png", "/2.png", "/4.png", "/5.png", "/7.png", "/more.css", "/old.png", "/s.css"]
    assert sorted(came) == sorted([*map(site.url, paths), site.url("/3.png", CDN)])
    assert len(cluster.results()) == 1
    forbidden = [site.url("/6.png"), site.url("/6.png", CDN)]
    account = page["requisites"]
    assert account["missing"] == [{"url": url, "why": "robots"} for url in forbidden]
    assert (account["requests"], account["came"]) == (9, 9)
    assert b64decode(came[site.url("/s.css")]["as_sent"]["body"]) == packed
    assert {record["kind"] for record in records} == {"requisite"}
    assert {record["parent_url"] for record in records} == {site.url("/")}
    assert b64decode(came[site.url("/3.png", CDN)]["body"]) == picture("3").body


@both_ways
async def test_archives_have_the_responses_of_redirects(cluster: CrawlerCluster) -> None:
    """Redirects are published as they were sent, once, and not as results; only in archives."""
    moved = b"HTTP/1.1 301 Gone away\r\nlocation: /new\r\nContent-Length: 0\r\n"
    refresh = b"<meta http-equiv=refresh content='0; url=/old'>"
    pages = {"/old": Answer(raw=moved + b"\r\n"), "/new": html("new"), "/": html(refresh.decode())}
    with serving(pages) as site, cluster.worker():
        for archive in (True, None):
            seed = {"url": site.url("/"), "archive": archive, "crawlid": f"{archive}"}
            await cluster.end_of(await cluster.ask(seed), timeout_s=30)
    records = cluster.records(cluster.topics.requisites)
    assert [(record["url"], record["kind"]) for record in records] == [
        (site.url("/"), "redirect"),
        (site.url("/old"), "redirect"),
    ]
    assert (records[0]["body"], records[1]["status_code"]) == (refresh.decode(), 301)
    assert records[1]["as_sent"] == {"head": moved.decode()}
    results = cluster.results()
    assert [result["url"] for result in results] == [site.url("/new")] * 2
    assert len({record["id"] for record in [*records, *results]}) == 4


async def test_requisites_need_no_news_from_redis(cluster: CrawlerCluster) -> None:
    """Requisites are requested even if the worker reports and leases nothing for seconds."""
    with serving(site_of("".join(f"<img src={number}.png>" for number in range(1, 10)))) as site:
        for number in range(1, 10):
            site.pages[f"/{number}.png"] = Answer(after_s=0.7, headers=PNG)
        with cluster.worker():
            page, records = await crawl(cluster, site.url("/"))
    assert (page["requisites"]["missing"], len(records)) == ([], 9)


async def test_a_page_requests_no_more_than_its_rule_allows(cluster: CrawlerCluster) -> None:
    """A page repeats no requisite of its run; the next page requests what styles still need."""
    rule = ThrottleRule(hits=1000, window_s=1, moderated=False, concurrency=64, render=3)
    await cluster.set_rules(WIDE_OPEN, {"127.0.0.1": rule}, frozenset({"127.0.0.3"}))
    style = Answer(b"a{background:url(8.png)} b{background:url(9.png)}", headers=CSS)
    images = "".join(f"<img src={number}.png>" for number in range(1, 6))
    with serving(
        site_of("", **{"/s.css": style, "/next": html("<link rel=stylesheet href=s.css>")})
    ) as site:
        blocked = site.url("/1.png", "127.0.0.3")
        site.pages["/"] = html(
            f"<link rel=stylesheet href=s.css>{images}<img src={blocked}><a href=/next>next</a>"
        )
        with cluster.worker():
            _, records = await crawl(cluster, site.url("/"), maxdepth=1)
        paths = site.paths()
    first, second = cluster.results()
    account = first["requisites"]
    missing = {one["url"]: one["why"] for one in account["missing"]}
    assert missing.pop(blocked) == "blocked"
    assert missing == dict.fromkeys(
        map(site.url, ("/3.png", "/4.png", "/5.png", "/8.png", "/9.png")), "capped"
    )
    assert (account["requests"], account["came"], account["known"]) == (3, 3, 0)
    account = second["requisites"]
    assert (account["requests"], account["came"], account["known"]) == (2, 2, 1)
    assert set(counted(records).values()) == {1}
    assert sorted(paths) == ["/", "/1.png", "/2.png", "/8.png", "/9.png", "/next", "/s.css"]


async def test_a_page_waits_for_its_requisites_only_so_long(cluster: CrawlerCluster) -> None:
    """The result names those that are late, too large, refused or out of reach."""
    pages = {
        "/slow.png": Answer(after_s=30),
        "/large.png": Answer(b"\0" * 100_000, headers=PNG),
        "/gone.png": Answer(status=404),
        "/busy.png": Answer(status=503),
    }
    images = "".join(
        f"<img src={path}>" for path in ("http://127.0.0.4:9/", "http://10.0.0.1/", *pages)
    )
    bounds = {"CRAWLSTREAM_REQUISITES_TIMEOUT": "2", "CRAWLSTREAM_RENDER_BYTES": "65536"}
    with serving(site_of(images, **pages)) as site, cluster.worker(**bounds):
        page, records = await crawl(cluster, site.url("/"))
    missing = {
        one["url"].rsplit("/", 1)[1] or one["url"]: one["why"]
        for one in page["requisites"]["missing"]
    }
    assert missing == {
        "slow.png": "timeout",
        "large.png": "too_large",
        "busy.png": "http_503",
        "http://127.0.0.4:9/": "refused",
        "http://10.0.0.1/": "address_refused",
    }
    assert [(record["url"], record["status_code"]) for record in records] == [
        (site.url("/gone.png"), 404)
    ]


async def test_a_crawler_that_dies_repeats_requisites_under_their_ids(
    cluster: CrawlerCluster,
) -> None:
    """No requisite is lost, and repeats have the same id. Other crawls have no requisites."""
    with serving(site_of("<img src=1.png><img src=2.png><img src=3.png>")) as site:
        asked = await cluster.ask({"url": site.url("/"), "archive": True, "requisites": True})
        with cluster.worker(FAILPOINT="after_requisite:kill:2") as crawler:
            assert crawler.wait() == -signal.SIGKILL
        published = cluster.records(cluster.topics.requisites)
        with cluster.worker():
            await cluster.end_of(asked, timeout_s=60)
            plain = await cluster.ask({"url": site.url("/"), "crawlid": "plain", "archive": True})
            await cluster.end_of(plain, timeout_s=30)
    records = cluster.records(cluster.topics.requisites)
    assert len(records) == len(published) + 3
    ids = {(record["id"], record["url"]) for record in records}
    assert sorted(url for _, url in ids) == [site.url(f"/{number}.png") for number in (1, 2, 3)]
    assert ["requisites" in result for result in cluster.results()] == [True, False]
