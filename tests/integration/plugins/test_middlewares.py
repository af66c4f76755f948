"""Downloader middlewares of users, which may answer with requests of their own."""

from __future__ import annotations

import os
from pathlib import Path

from crawlstream_chaos.scripted_site import Answer, CrawlerSite, page
from crawlstream_cli.local.ports import free_block
from support.crawler.cluster import CrawlerCluster

pytest_plugins = ["support.crawler.fixtures"]

MEDDLING = """
import os
from scrapy import Request
from scrapy.http import HtmlResponse
from crawling import ClusterSpider

SITE = os.environ["SITE"]

class Meddler:
    def process_request(self, request):
        if request.url.endswith("/kept"):
            return HtmlResponse(request.url, body=b"from a cache", request=request)
        if request.url.endswith("/dressed") and "dressed" not in request.meta:
            return Request(request.url, headers={"X-Dressed": "1"}, meta={"dressed": True})
        if request.url.endswith("/abroad"):
            return request.replace(url=SITE.replace("127.0.0.1", "127.0.0.2") + "/arrived")

    def process_response(self, request, response):
        if request.url.endswith("/again"):
            return request.replace(dont_filter=True)
        if request.url.endswith("/elsewhere"):
            return Request(SITE + "/there")
        if request.url.endswith("/in-time") and request.meta["retry_times"] < 1:
            return request.copy()
        return response

    def process_exception(self, request, exception):
        return request.replace(dont_filter=True)

class Ledger:
    def process_item(self, item):
        return item

class Meddled(ClusterSpider):
    name = "meddled"
    custom_settings = {
        "DOWNLOADER_MIDDLEWARES": {"meddled.Meddler": 300},
        "ITEM_PIPELINES": {"meddled.Ledger": 300},
        "USER_AGENT": "meddler/1.0",
        "DOWNLOAD_DELAY": 60,
        "DOWNLOAD_SLOTS": {"127.0.0.1": {"concurrency": 1, "delay": 60}},
    }

    def parse(self, response):
        yield self.result(response)
"""


async def test_what_a_middleware_asks_for_instead_goes_through_the_frontier(
    cluster: CrawlerCluster, site: CrawlerSite, tmp_path: Path
) -> None:
    """A spider's own settings and middlewares lose no page, and fetch none unpaid or forbidden.

    Nor do they hide from robots.txt that a host does not answer: its pages fail.
    """
    (tmp_path / "meddled.py").write_text(MEDDLING)
    path = os.pathsep.join(filter(None, (str(tmp_path), cluster.env.get("PYTHONPATH"))))
    asked = ("/kept", "/dressed", "/abroad", "/again", "/elsewhere", "/in-time")
    site.pages |= dict.fromkeys([*asked, "/there", "/arrived"], page())
    site.pages["/robots.txt"] = Answer(b"User-agent: meddler\nDisallow: /not-by-meddlers")
    users = {
        "PYTHONPATH": path,
        "CRAWLSTREAM_SPIDER_MODULES": "meddled",
        "SITE": site.url(""),
        "RETRY_TIMES": "1",
        "ROBOTSTXT_OBEY": "true",
    }
    dead = f"http://127.0.0.3:{free_block(1)}/"
    seeds = [*(site.url(path) for path in (*asked, "/not-by-meddlers")), dead]
    with cluster.worker("meddled", **users):
        crawl = await cluster.feed(*seeds, spiderid="meddled")
        state = await cluster.end_of(crawl, timeout_s=60)
    results = {record["url"]: record for record in cluster.results()}
    assert cluster.failures() == {
        site.url("/again"): "ignored",
        site.url("/not-by-meddlers"): "robots",
        dead: "refused",
    }
    assert (state.done, state.redirected, state.failed) == (5, 2, 3)
    assert {visit.headers["user-agent"] for visit in site.visits} == {"meddler/1.0"}
    assert site.paths().count("/again") == 2
    assert site.paths().count("/in-time") == 2
    assert results[site.url("/in-time")]["attempt"] == 2
    assert "/kept" not in site.paths()
    assert results[site.url("/kept")]["body"] == "from a cache"
    assert results[site.url("/kept")]["timestamp"] > "2026"
    dressed = [visit.headers.get("x-dressed") for visit in site.visits if visit.path == "/dressed"]
    assert dressed == ["1"]
    assert results[site.url("/there")]["redirect_urls"] == [site.url("/elsewhere")]
    abroad = results[site.url("/arrived", "127.0.0.2")]
    assert abroad["redirect_urls"] == [site.url("/abroad")]
