"""Rights of pages in crawls: stated by robots.txt, headers and heads, for a purpose."""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis

from crawlstream.keys import FrontierKeys
from crawlstream.model.effects import OutboxRecord
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, page
from crawlstream_frontier.streams import Streams
from support.crawler.cluster import CrawlerCluster

pytest_plugins = ["support.crawler.fixtures"]

_ROBOTS = b"""License: https://l.example/license.xml
User-agent: *
Content-Usage: /shut train-ai=n
Content-Usage: /shut/open train-ai=y
Disallow: /never
"""
_SETTINGS = {"CRAWLSTREAM_PURPOSE": "search", "CRAWLSTREAM_DROP": "reserved"}
_USAGE = ("Content-Usage", "search=y")


async def test_pages_that_their_site_reserves_have_no_body(
    cluster: CrawlerCluster, site: CrawlerSite, redis: Redis
) -> None:
    """Each by its own statement, if that is about the purpose of the crawl; one page is fetched."""
    paths = ["/shut/a", "/shut/open/b", "/header", "/meta", "/mined", "/plain"]
    site.pages |= {
        "/robots.txt": Answer(_ROBOTS, headers={"Content-Type": "text/plain"}),
        "/": page(*paths),
        **dict.fromkeys(["/shut/a", "/shut/open/b", "/plain"], page()),
        "/header": Answer(b"<p>x", more_headers=[_USAGE, ("Content-Usage", "train-ai=n")]),
        "/meta": Answer(b"<meta name='tdm-reservation' content='1'><title>x</title>"),
        "/mined": Answer(b"<p>x", more_headers=[("TDM-Reservation", "1")]),
    }
    seed: dict[str, Any] = {"url": site.url("/"), "maxdepth": 1}
    with cluster.worker(ROBOTSTXT_OBEY="true", **_SETTINGS):
        for purpose in ("train-ai", "mining", None):
            asked = {**seed, "crawlid": purpose or "search", "purpose": purpose}
            crawl = await cluster.ask(asked)
            assert (await cluster.end_of(crawl, timeout_s=60)).done == 7
            await cluster.finish(crawl)
    results = {(r["crawlid"], r["url"].partition(str(site.port))[2]): r for r in cluster.results()}
    dropped: dict[str, set[str]] = {purpose: set() for purpose in ("train-ai", "mining", "search")}
    for (crawlid, path), result in results.items():
        assert result["rights"]["purpose"] == crawlid
        assert result["rights"]["licenses"] == ["https://l.example/license.xml"]
        assert 0 <= result["rights"]["robots_age_s"] < 120
        assert (result["body"] == "") == result["rights"]["reserved"]
        if result.get("dropped") == "reserved":
            dropped[crawlid].add(path)
    assert dropped == {
        "train-ai": {"/shut/a", "/header", "/meta", "/mined"},
        "mining": {"/meta", "/mined"},
        "search": set(),
    }
    owed = await Streams(redis, FrontierKeys(), "reader").records(block_ms=0)
    endings = [one for one in owed if isinstance(one, OutboxRecord) and one.counters]
    counts = {"train-ai": {"reserved": 4}, "mining": {"reserved": 2}, "search": {}}
    for kind in ("dropped", "reserved"):
        assert {one.crawl.crawlid: one.reasons[kind] for one in endings} == counts
    assert results["train-ai", "/header"]["rights"]["sources"][0] == {
        "from": "header", "name": "content-usage", "value": "search=y, train-ai=n",
    }  # fmt: skip
