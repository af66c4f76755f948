"""Whole crawls of sites with and without a trap, that act on verdicts."""

from __future__ import annotations

from crawlstream.model.throttle_table import ThrottleRule
from crawlstream_chaos.scripted_site import serving
from crawlstream_chaos.waste_sites.served import ManySites
from crawlstream_frontier.waste.packing import unpack
from support.crawler.cluster import CrawlerCluster
from support.session.own import own_redis_server
from support.waste.small import FewErrors, FewOrders, FewSessions, SmallShop

__all__ = ["own_redis_server"]

pytest_plugins = ["support.crawler.fixtures"]

RULE = ThrottleRule(hits=200, window_s=1, moderated=False, concurrency=16)


async def test_crawls_of_traps_end_and_lose_no_page(cluster: CrawlerCluster) -> None:
    """Two crawlers share the sites, so neither sees all pages, nor in the order of the links."""
    sites = FewSessions(), FewOrders(), FewErrors(), SmallShop()
    ManySites.host({f"127.0.0.{number}": site for number, site in enumerate(sites, 1)})
    await cluster.set_rules(RULE, {})
    with serving({}, ManySites) as web, cluster.worker(), cluster.worker():
        seeds = [web.url("/", host) for host in ManySites.logs]
        crawl = await cluster.feed(*seeds, maxdepth=300, guard="on")
        state = await cluster.end_of(crawl, timeout_s=120)
    assert [log.lost for log in ManySites.logs.values()] == [0, 0, 0, 0]
    assert state.failed == 0
    assert state.redirected > 50
    sessions, orders, errors, _shop = ManySites.logs.values()
    assert sessions.fetches + orders.fetches + errors.fetches < 4_000
    sketches = await cluster.frontier.sketches.read([*ManySites.logs])
    assert [len(unpack(raw).texts.frequent.soft_errors) for raw in sketches] == [0, 0, 1, 0]
    skipped = [
        page["id"]
        for event in cluster.records(cluster.topics.events)
        if event["event"] == "pages_skipped"
        for page in event["pages"]
    ]
    assert len(set(skipped)) == state.skipped
    assert not {each["id"] for each in cluster.results()} & set(skipped)
