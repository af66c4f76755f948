"""Files of sites about uses of their pages, in crawls: fetched once a day and origin."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from redis.asyncio import Redis

from crawlstream.keys import FrontierKeys
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, page, serving
from support.crawler.cluster import WIDE_OPEN, CrawlerCluster
from support.crawler.ways import both_ways

pytest_plugins = ["support.crawler.fixtures"]

TDM, LICENSE = "/.well-known/tdmrep.json", "/license.xml"
FILES = {"CRAWLSTREAM_RIGHTS_FILES": "tdmrep,rsl", "ROBOTSTXT_OBEY": "true"}
RESERVED = Answer(b'[{"location": "/shut", "tdm-reservation": 1, "tdm-policy": "/policy"}]')
TERMS = Answer(
    b'<rsl xmlns="https://rslstandard.org/rsl"><content url="/sold"><license>'
    b'<prohibits type="usage">ai-train</prohibits></license></content></rsl>'
)
PATHS = ["/shut/1", "/shut/2", "/sold/1", "/open/1", "/open/2", "/open/3"]
ELSEWHERE = "127.0.0.9"


def fetched(site: CrawlerSite, host: str) -> Counter[str]:
    """Count the requests that a host got for files of rights."""
    files = {TDM, LICENSE, "/moved"}
    return Counter(v.path for v in site.visits if v.host == host and v.path in files)


def robots(site: CrawlerSite, *lines: str, host: str) -> dict[str, Answer]:
    """Return a robots.txt that names a license on a host."""
    text = "\n".join([f"License: {site.url(LICENSE, host)}", "User-agent: *", *lines])
    return {"/robots.txt": Answer(text.encode())}


def rights_by_path(cluster: CrawlerCluster, host: str) -> dict[str, Any]:
    """Return the rights of the results of a host."""
    found = {}
    for result in cluster.results():
        place = result["url"].partition("://")[2]
        if place.startswith(f"{host}:"):
            found["/" + place.partition("/")[2]] = result.get("rights")
    return found


@both_ways
async def test_a_cluster_fetches_a_file_once_and_reads_it_for_each_page(
    cluster: CrawlerCluster, site: CrawlerSite, redis: Redis
) -> None:
    """Two workers keep the site's rule, these requests included; bodies are dropped by them."""
    host, rule = "127.0.0.3", ThrottleRule(hits=2, window_s=1.5)
    site.pages |= {TDM: RESERVED, LICENSE: TERMS, **dict.fromkeys(PATHS, page())}
    site.pages |= robots(site, host=host)
    await cluster.set_rules(WIDE_OPEN, {host: rule})
    urls = [site.url(path, host) for path in PATHS]
    wanted = {"purpose": "train-ai", "drop": ["reserved"]}
    with cluster.worker(**FILES), cluster.worker(**FILES):
        crawl = await cluster.ask(*({"url": url, **wanted} for url in urls))
        assert (await cluster.end_of(crawl, timeout_s=60)).done == 6
    assert fetched(site, host) == {TDM: 1, LICENSE: 1}
    times = sorted(visit.at for visit in site.visits if visit.host == host)
    assert len(times) == 9
    spans = [last - first for first, last in zip(times, times[rule.hits :], strict=False)]
    assert min(spans) >= rule.window_s - 0.001
    rights = rights_by_path(cluster, host)
    assert {path for path, found in rights.items() if found["reserved"]} == {*PATHS[:3]}
    assert rights["/shut/1"]["tdm"] == 1
    assert rights["/shut/1"]["tdm_policy"] == site.url("/policy", host)
    assert rights["/sold/1"]["uses"] == {"train-ai": "n"}
    told = {"from": "file", "name": "rsl", "value": "prohibits ai-train"}
    assert told in rights["/sold/1"]["sources"]
    dropped = {r["url"] for r in cluster.results() if r.get("dropped") == "reserved"}
    assert dropped == {*urls[:3]}
    assert 0 < await redis.ttl(FrontierKeys().robots(site.url(TDM, host))) <= 24 * 3600


async def test_no_page_depends_on_a_file(
    cluster: CrawlerCluster, site: CrawlerSite, redis: Redis
) -> None:
    """Fetches those that fail again after an hour, and none that is elsewhere or forbidden."""
    fails, breaks, hangs, moves, forbids, asks = (f"127.0.1.{n}" for n in range(1, 7))
    site.pages |= {
        **dict.fromkeys(PATHS, page()),
        f"{fails}{TDM}": Answer(b"[]", status=500),
        f"{breaks}{TDM}": Answer(is_reset=True),
        f"{hangs}{TDM}": Answer(b"[]", after_s=8),
        f"{moves}{TDM}": Answer(status=301, headers={"Location": site.url(TDM, ELSEWHERE)}),
        f"{asks}{TDM}": Answer(status=301, headers={"Location": "/moved"}),
        f"{asks}/moved": Answer(b'[{"location": "/", "tdm-reservation": 1}]'),
        f"{ELSEWHERE}{TDM}": RESERVED,
        f"{ELSEWHERE}{LICENSE}": TERMS,
        TDM: RESERVED,
        **robots(site, host=ELSEWHERE),
    }
    barred = robots(site, "Disallow: /.well-known/", "Disallow: /license.xml", host=forbids)
    site.pages[f"{forbids}/robots.txt"] = barred["/robots.txt"]
    hosts = (fails, breaks, hangs, moves, forbids, asks)
    with cluster.worker(**FILES), cluster.worker(**FILES):
        crawl = await cluster.feed(*(site.url(path, host) for path in PATHS for host in hosts))
        state = await cluster.end_of(crawl, timeout_s=90)
    assert (state.done, state.failed) == (36, 0)
    assert not [visit for visit in site.visits if visit.host == ELSEWHERE]
    for host in (fails, breaks, hangs, moves):
        assert fetched(site, host) == {TDM: 1}
        url = site.url(LICENSE, ELSEWHERE)
        for found in rights_by_path(cluster, host).values():
            assert (found["tdm"], found["uses"], found["licenses"]) == (None, {}, [url])
    assert not fetched(site, forbids)
    assert fetched(site, asks) == {TDM: 1, "/moved": 1}
    assert {found["tdm"] for found in rights_by_path(cluster, asks).values()} == {1}
    keys = [FrontierKeys().robots(site.url(TDM, host)) for host in (fails, breaks, hangs)]
    ttls = [await redis.ttl(key) for key in keys]
    assert all(3000 < ttl_s <= 3600 for ttl_s in ttls)


async def test_a_file_of_another_port_is_not_fetched(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """Does not fetch a file of another port, because the robots.txt there is not known."""
    host = "127.0.3.1"
    with serving({TDM: RESERVED, LICENSE: TERMS}) as other:
        site.pages |= {
            **dict.fromkeys(PATHS, page()),
            TDM: Answer(status=302, headers={"Location": other.url(TDM, host)}),
            "/robots.txt": robots(other, host=host)["/robots.txt"],
        }
        with cluster.worker(**FILES):
            crawl = await cluster.feed(*(site.url(path, host) for path in PATHS))
            assert (await cluster.end_of(crawl, timeout_s=60)).done == 6
        assert not other.visits
        assert fetched(site, host) == {TDM: 1}
        found = rights_by_path(cluster, host)["/sold/1"]
        assert found["licenses"] == [other.url(LICENSE, host)]
        assert (found["tdm"], found["uses"]) == (None, {})


@pytest.mark.parametrize("kinds", ["", "rsl"])
async def test_only_files_of_the_kinds_that_are_named_are_fetched(
    cluster: CrawlerCluster, site: CrawlerSite, kinds: str
) -> None:
    """Lists the URL of a license that is not fetched. By default none is."""
    host = "127.0.2.1"
    site.pages |= {TDM: RESERVED, LICENSE: TERMS, **dict.fromkeys(PATHS, page())}
    site.pages |= robots(site, host=host)
    with cluster.worker(**FILES | {"CRAWLSTREAM_RIGHTS_FILES": kinds}):
        crawl = await cluster.feed(*(site.url(path, host) for path in PATHS))
        assert (await cluster.end_of(crawl, timeout_s=60)).done == 6
    assert fetched(site, host) == ({LICENSE: 1} if kinds else {})
    found = rights_by_path(cluster, host)["/sold/1"]
    assert found["licenses"] == [site.url(LICENSE, host)]
    assert found["uses"] == ({"train-ai": "n"} if kinds else {})
