"""The fetch lane and Scrapy's engine: who takes which, and that they come to the same."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from crawlstream.chaos.scripted_site import CrawlerSite, page
from support.crawler.cluster import CrawlerCluster
from support.crawler.ways import WAYS
from support.fault_web import DEPTH, serving_faults, visits_by_url

pytest_plugins = ["support.crawler.fixtures"]

PAGES = 120

OF_THE_MOMENT = frozenset({"crawlid", "digest", "id", "latency_ms", "timestamp"})
OF_WHO_CAME_FIRST = frozenset({"depth", "parent_url"})
"""A page that several lead to has the one that was settled first for its parent."""


async def test_both_ways_come_to_the_same(cluster: CrawlerCluster) -> None:
    """Results field by field, failures, counts and the site's log, on a web of faults."""
    stories = [await _story(cluster, way) for way in WAYS]
    assert stories[0]["results"].keys() == stories[1]["results"].keys()
    for url, result in stories[0]["results"].items():
        assert result == stories[1]["results"][url]
    assert stories[0] == stories[1]


async def _story(cluster: CrawlerCluster, way: str) -> dict[str, Any]:
    """What becomes of the web by one way, its port left out."""
    patience = {"RETRY_TIMES": "1", "DOWNLOAD_TIMEOUT": "3", "CRAWLSTREAM_FETCH": way}
    with serving_faults(pages=PAGES, seed=7, retry_times=1) as (web, site):
        with cluster.worker(**patience) as worker:
            crawl = await cluster.feed(web.seed_url, crawlid=way, maxdepth=DEPTH)
            state = await cluster.end_of(crawl, timeout_s=90)
        assert _ways_of(worker.events())[-1][0] == way
        results = [_lasting(r) for r in cluster.results() if r["crawlid"] == way]
        failures = {
            event["url"]: (event["reason"], event["attempts"])
            for event in cluster.records(cluster.topics.events)
            if event["event"] == "page_failed" and event["crawlid"] == way
        }
        story = {
            "results": {result["url"]: result for result in results},
            "failures": failures,
            "ledger": [state.admitted, state.done, state.failed, state.redirected],
            "filtered": state.filtered_by_reason,
            "visits": visits_by_url(site),
        }
        assert len(results) == state.done
    text = json.dumps(story).replace(str(site.port), "PORT")
    told: dict[str, Any] = json.loads(text)
    return told


def _lasting(result: Mapping[str, Any]) -> dict[str, Any]:
    """What a record says of its page whenever it is fetched, and by whatever parent."""
    kept = {k: v for k, v in result.items() if k not in OF_THE_MOMENT | OF_WHO_CAME_FIRST}
    kept["request_headers"] = {k: v for k, v in result["request_headers"].items() if k != "Referer"}
    return kept


def _ways_of(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """What crawlers have said about their way, and why."""
    return [(each["way"], each.get("reason", "")) for each in events if "way" in each]


SPIDERS = """
from scrapy import signals

from crawling import ClusterSpider

class Mine(ClusterSpider):
    def parse(self, response):
        yield self.result(response)

class Plain(Mine):
    name = "plain"

class Starting(Mine):
    name = "starting"

    async def start(self):
        async for request in super().start():
            yield request

class Middleware:
    def process_request(self, request):
        return None

class Dressed(Mine):
    name = "dressed"
    custom_settings = {"DOWNLOADER_MIDDLEWARES": {Middleware: 300}}

class Filtered(Mine):
    name = "filtered"
    custom_settings = {"SPIDER_MIDDLEWARES": {Middleware: 300}}

class Pipeline:
    def process_item(self, item):
        return item

class Piped(Mine):
    name = "piped"
    custom_settings = {"ITEM_PIPELINES": {Pipeline: 300}}

class Extension:
    @classmethod
    def from_crawler(cls, crawler):
        listener = cls()
        crawler.signals.connect(listener.heard, signals.response_received)
        crawler.extension = listener
        return listener

    def heard(self, response):
        pass

class Heard(Mine):
    name = "heard"
    custom_settings = {"EXTENSIONS": {Extension: 500}}

class Ciphered(Mine):
    name = "ciphered"
    custom_settings = {"DOWNLOADER_CLIENT_TLS_CIPHERS": "HIGH"}
"""

REASONS = {
    "plain": "",
    "starting": "Starting has a start() of its own",
    "dressed": "spiders_of_mine.Middleware is enabled",
    "filtered": "spiders_of_mine.Middleware is enabled",
    "piped": "spiders_of_mine.Pipeline is enabled",
    "heard": "spiders_of_mine.Extension listens to the signal response_received",
    "ciphered": "the setting DOWNLOADER_CLIENT_TLS_CIPHERS is changed",
}


@pytest.mark.parametrize("spider", REASONS)
async def test_the_lane_is_for_pages_that_nobody_else_has_a_part_in(
    cluster: CrawlerCluster, site: CrawlerSite, tmp_path: Path, spider: str
) -> None:
    """Everybody else's take Scrapy's engine, which is said once, with the reason."""
    (tmp_path / "spiders_of_mine.py").write_text(SPIDERS)
    path = os.pathsep.join(filter(None, (str(tmp_path), cluster.env.get("PYTHONPATH"))))
    site.pages["/"] = page()
    users = {"PYTHONPATH": path, "CRAWLSTREAM_SPIDER_MODULES": "spiders_of_mine"}
    with cluster.worker(spider, **users) as worker:
        crawl = await cluster.feed(site.url("/"), spiderid=spider)
        assert (await cluster.end_of(crawl, timeout_s=90)).done == 1
    reason = REASONS[spider]
    assert _ways_of(worker.events()) == [("engine" if reason else "lane", reason)]
