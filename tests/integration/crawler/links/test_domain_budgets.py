"""A crawl leaves a domain that has spent its budget, with a real Redis and a real Kafka."""

from __future__ import annotations

from crawlstream_chaos.scripted_site import CrawlerSite, page
from support.crawler.cluster import CrawlerCluster

pytest_plugins = ["support.crawler.fixtures"]


async def test_waiting_pages_of_a_spent_domain_are_reported_and_not_requested(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """The events name the budget, and each page once; the run finishes."""
    links = [f"/p/{n}" for n in range(30)]
    site.pages |= {"/": page(*links)}
    with cluster.worker():
        crawl = await cluster.feed(site.url("/"), maxdepth=1, domain_max_bytes=1)
        state = await cluster.end_of(crawl, timeout_s=20)
    assert (state.done, state.skipped_by_reason) == (1, {"domain_budget": 30})
    assert state.spent_domains == {"domain_max_bytes": 1}
    assert site.paths() == ["/"]
    events = [e for e in cluster.records(cluster.topics.events) if e["event"] == "pages_skipped"]
    assert {event["by"] for event in events} == {"domain_max_bytes"}
    told = [each["url"] for event in events for each in event["pages"]]
    assert sorted(told) == sorted(map(site.url, links))
