"""Pages that a browser makes, between a real frontier and a real Kafka."""

from __future__ import annotations

from support.crawler.cluster import CrawlerCluster, counted
from support.crawler.spa import tree

from crawlstream.chaos.scripted_site import serving

pytest_plugins = ["support.crawler.fixtures"]

RENDERS = {"CRAWLSTREAM_RENDER": "true"}


async def test_links_that_only_scripts_make_are_followed(cluster: CrawlerCluster) -> None:
    """All pages of a site whose links an API tells are delivered once, as a browser shows them."""
    with serving(tree(12)) as site, cluster.worker(**RENDERS):
        crawl = await cluster.feed(site.url("/1"), maxdepth=5, render={})
        state = await cluster.end_of(crawl, timeout_s=60)
    assert (state.done, state.failed) == (12, 0)
    results = cluster.results()
    assert counted(results) == {site.url(f"/{n}"): 1 for n in range(1, 13)}
    assert all(record["render"]["complete"] for record in results)
