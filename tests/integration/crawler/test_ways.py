"""The fetch lane and Scrapy's engine: who takes which, and that they come to the same.

``WAYS_PAGES=10000`` compares them on so large a web of faults, and on the whole corpus of hostile
servers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from crawlstream.model.state import CrawlState
from crawlstream.model.url import canonical
from crawlstream_chaos.hostile_pages import MIB, Case, corpus, oddities
from crawlstream_chaos.scripted_site import CrawlerSite, page, serving
from support.crawler.cluster import CrawlerCluster
from support.crawler.ways import WAYS
from support.fault_web import DEPTH, FaultWeb, visits_by_url

pytest_plugins = ["support.crawler.fixtures"]

PAGES = int(os.environ.get("WAYS_PAGES", "120"))
IS_LONG = PAGES >= 1_000
PATIENCE_S = 10 if IS_LONG else 3
HOSTILE_S = 30 if IS_LONG else 3
LARGEST = 4 * MIB

LINKED_TO = 3
"""Slashes in URLs of the web's own pages; what is only redirected to has more."""

OF_THE_MOMENT = frozenset({"crawlid", "digest", "id", "latency_ms", "timestamp"})
OF_THE_RUN = frozenset({"crawl", "last_activity", "started_at", "state"})
OF_WHO_CAME_FIRST = frozenset({"depth", "parent_url"})
"""A page that several lead to has the one that was settled first for its parent."""


async def test_both_ways_come_to_the_same(cluster: CrawlerCluster) -> None:
    """Results field by field, failures, counts and the site's log, on a web of faults."""
    with serving({}) as site:
        lane, engine = [await _faults(cluster, site, way) for way in WAYS]
    assert len(lane["results"]) > PAGES / 2
    assert _differences(lane, engine) == {}


async def test_both_ways_come_to_the_same_among_hostile_servers(cluster: CrawlerCluster) -> None:
    """Delivers the same in both ways, but heads that libcurl refuses take one more attempt."""
    lane, engine = [await _hostile(cluster, way) for way in WAYS]
    named = {f"http://{host}:PORT{path}" for host, path in _hostile_seeds() if path in oddities()}
    found = _differences(lane, engine)
    assert {(part, url) for part, urls in found.items() for url in urls} == {
        (part, url) for part in ("results", "visits") for url in named
    }
    for url in named:
        assert lane["results"][url] == {**engine["results"][url], "attempt": 2}
        assert (lane["visits"][url], engine["visits"][url]) == (2, 1)


def _differences(lane: dict[str, Any], engine: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By part of a story and by URL or count, what the ways have come to; of results by field."""
    found = {part: _differing(lane[part], engine[part]) for part in lane}
    for url, (by_lane, by_engine) in found["results"].items():
        if by_lane and by_engine:
            found["results"][url] = _differing(by_lane, by_engine)
    return {part: names for part, names in found.items() if names}


def _differing(lane: Mapping[str, Any], engine: Mapping[str, Any]) -> dict[str, Any]:
    """Differences of the two, under their names."""
    pairs = {name: (lane.get(name), engine.get(name)) for name in {*lane, *engine}}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


async def _faults(cluster: CrawlerCluster, site: CrawlerSite, way: str) -> dict[str, Any]:
    """Outcome of a web of faults by one way."""
    patience = {"RETRY_TIMES": "1", "DOWNLOAD_TIMEOUT": str(PATIENCE_S)}
    # Its port is in its pages: another one would compress to another length.
    web = FaultWeb(site.port, pages=PAGES, seed=7, retry_times=1)
    site.pages = dict(web.pages)
    site.visits.clear()
    with cluster.worker(**patience, CRAWLSTREAM_FETCH=way) as worker:
        crawl = await cluster.feed(web.seed_url, crawlid=way, maxdepth=DEPTH)
        state = await cluster.end_of(crawl, timeout_s=90 + PAGES / 4)
    assert _ways_of(worker.events())[-1][0] == way
    return _story(cluster, site, way, state)


async def _hostile(cluster: CrawlerCluster, way: str) -> dict[str, Any]:
    """Outcome of hostile servers by one way; pages that they link to are crawled as well."""
    limits = {"RETRY_TIMES": "1", "DOWNLOAD_TIMEOUT": str(HOSTILE_S)}
    limits["CRAWLSTREAM_DOWNLOAD_MAX_BYTES"] = str(LARGEST)
    with serving({path: case.page for path, case in _cases().items()}) as site:
        seeds = [site.url(path, host) for host, path in _hostile_seeds()]
        with cluster.worker(**limits, CRAWLSTREAM_FETCH=way) as worker:
            crawl = await cluster.feed(*seeds, crawlid=f"hostile-{way}", maxdepth=1)
            state = await cluster.end_of(crawl, timeout_s=90 + 10 * HOSTILE_S)
        assert _ways_of(worker.events())[-1][0] == way
        return _story(cluster, site, f"hostile-{way}", state)


def _cases() -> Mapping[str, Case]:
    """The corpus; in the short form without what takes long. A page of many links is left out."""
    slow = () if IS_LONG else ("/drip/", "/endless/", "/huge/", "/refusal/silence")
    left_out = (*slow, "/huge/links")
    return {path: case for path, case in corpus(LARGEST).items() if not path.startswith(left_out)}


def _hostile_seeds() -> list[tuple[str, str]]:
    """Host and path of each case."""
    return [(f"127.9.0.{number}", path) for number, path in enumerate(_cases(), 1)]


def _story(
    cluster: CrawlerCluster, site: CrawlerSite, crawlid: str, state: CrawlState
) -> dict[str, Any]:
    """Outcome of a crawl, the port of its site left out."""
    results = [_lasting(each) for each in cluster.results() if each["crawlid"] == crawlid]
    failures = {
        event["url"]: (event["reason"], event["attempts"])
        for event in cluster.records(cluster.topics.events)
        if event["event"] == "page_failed" and event["crawlid"] == crawlid
    }
    assert len(results) == state.done
    story = {
        "results": {result["url"]: result for result in results},
        "failures": failures,
        "ledger": {k: v for k, v in asdict(state).items() if k not in OF_THE_RUN},
        "visits": visits_by_url(site),
    }
    told: dict[str, Any] = json.loads(json.dumps(story).replace(str(site.port), "PORT"))
    return told


def _lasting(result: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a record that do not depend on when its page is fetched, and by which parent."""
    kept = {k: v for k, v in result.items() if k not in OF_THE_MOMENT | OF_WHO_CAME_FIRST}
    # In the spelling of whatever link was found first.
    kept |= {name: canonical(result[name]) for name in ("url", "response_url")}
    if result["url"].count("/") == LINKED_TO:
        # Some are redirected to as well: from a page that may be fetched before the link is seen.
        kept.pop("redirect_urls", None)
    kept["request_headers"] = {k: v for k, v in result["request_headers"].items() if k != "Referer"}
    return kept


def _ways_of(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Log lines of crawlers about their way, and the reasons."""
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
