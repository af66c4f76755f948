"""The next pages of a crawl over three partitions, and the order in its sites' log."""

from __future__ import annotations

from crawlstream.keys import Partitions
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.inspection import NextPages
from crawlstream.model.url import host_of
from crawlstream_chaos.scripted_site import page, serving
from crawlstream_chaos.witness import Witness
from crawlstream_cli.common.client import cluster_frontier
from rest_service.v2.scrapes.waiting_source import waiting_parts
from support.monitors import MonitorCluster
from support.waiting import wait_until

APP = "nexts"
HOSTS = [f"127.0.0.{n}" for n in range(2, 8)]
PATHS = [f"/{kind}/{n}" for n in range(5) for kind in ("plain", "best", "last")]
SLOW = {"QUEUE_HITS": "5", "QUEUE_WINDOW": "1", "QUEUE_MODERATED": "true"}


async def test_each_site_is_visited_in_the_order_that_was_listed(
    cluster: MonitorCluster, witness: Witness
) -> None:
    """The answers of the partitions are merged; lists of waiting URLs are of one partition each."""
    partitions = Partitions(cluster.prefix, 3)
    assert {partitions.of(host) for host in HOSTS} == {0, 1, 2}
    rules = [{"match": "/best/", "add": 200}, {"match": "/last/", "add": -100}]
    with serving({}) as site:
        every = [site.url(path, host) for path in PATHS for host in HOSTS]
        site.pages |= {host + path: page() for host in HOSTS for path in PATHS}
        site.pages[HOSTS[0] + "/"] = page(*every)
        seed = {"url": site.url("/", HOSTS[0]), "appid": APP, "crawlid": "one", "maxdepth": 1}
        with (
            cluster.kafka_monitor(),
            cluster.redis_monitor(**SLOW),
            cluster.crawler("link"),
        ):
            witness.feed({**seed, "priorities": rules})
            await wait_until(lambda: witness.results("one"))
            async with cluster_frontier(cluster.settings()) as frontier:

                async def all_wait() -> NextPages | None:
                    """Return the pages when all partitions have links, and the crawl's rules."""
                    found = await frontier.queries.next_pages(CrawlKey("link", APP, "one"), 100)
                    pages = found.pages if found else []
                    ranked = {each.domain for each in pages if each.rule is not None}
                    return found if ranked == set(HOSTS) else None

                found = await wait_until(all_wait)
                listed = {
                    url
                    for host in HOSTS
                    async for part in waiting_parts(frontier, site.url("/", host), frozenset({APP}))
                    for url in part.urls
                }
            await witness.ended("one")
        for host in HOSTS:
            expected = [each.url for each in found.pages if each.domain == host]
            visited = [site.url(v.path, v.host) for v in site.visits if v.host == host]
            assert [url for url in visited if url in expected] == expected
            assert len(expected) > 1
    assert listed <= {*every}
    assert {host_of(url) for url in listed} == {*HOSTS}
    due = [each.due_ms or 0 for each in found.pages]
    assert due == sorted(due)
    assert {each.rule for each in found.pages if "/best/" in each.url} == {1}
