"""Priority rules in a whole crawl: the order of the site's own log, and what is left out."""

from __future__ import annotations

import asyncio

from crawlstream.model.throttle_table import ThrottleRule
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, page
from support.crawler.cluster import CrawlerCluster

pytest_plugins = ["support.crawler.fixtures"]

ONE_BY_ONE = ThrottleRule(hits=20, window_s=1, concurrency=1)


async def test_the_site_is_visited_in_the_order_of_the_rules(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """Preferred pages come first, those below them too; within a priority it is FIFO."""
    plain = [f"/plain{number}" for number in range(8)]
    products = ["/products/1", "/products/2"]
    links = [*plain[:4], "/file.PDF", "/basket", *products, *plain[4:]]
    markup = "".join(f"<a href={link}>x</a>" for link in links) + "<a href=/offer>On sale</a>"
    site.pages |= {
        "/": Answer(markup.encode()),
        **dict.fromkeys((*plain, "/offer", "/file.PDF", "/products/2", "/below"), page()),
        "/products/1": page("/below"),
        "/plain0": page("/basket?add=1", "/moved"),
        "/moved": Answer(status=302, headers={"Location": "/basket"}),
    }
    await cluster.set_rules(ONE_BY_ONE, {})
    rules = [
        {"match": "/basket", "drop": True},
        {"match": "/products/", "add": 200},
        {"text": "(?i)sale", "add": 500},
        {"types": ["pdf"], "add": -200},
    ]
    asked = {"url": site.url("/"), "maxdepth": 3, "priorities": rules, "deny_extensions": []}
    with cluster.worker():
        state = await cluster.end_of(await cluster.ask(asked), timeout_s=60)
    visited = site.paths()
    first = [path for path in visited if path not in ("/below", "/moved")]
    assert first == ["/", "/offer", *products, *plain, "/file.PDF"]
    assert visited.index("/below") < visited.index("/plain2")
    assert visited.index("/moved") < visited.index("/file.PDF")
    assert state.filtered_by_reason == {"rule": 3}


async def test_what_is_said_to_be_next_comes_next(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """The site's log has the pages in the order in which they were listed."""
    links = [f"/{kind}/{number}" for number in range(6) for kind in ("plain", "best", "last")]
    site.pages |= {"/": page(*links), **dict.fromkeys(links, page())}
    await cluster.set_rules(ThrottleRule(hits=10, window_s=1, concurrency=1), {})
    rules = [{"match": "/best/", "add": 200}, {"match": "/last/", "add": -100}]
    asked = {"url": site.url("/"), "maxdepth": 1, "priorities": rules}
    with cluster.worker():
        crawl = await cluster.ask(asked)
        found = await cluster.frontier.queries.next_pages(crawl, 100)
        while not found or not any(each.depth for each in found.pages):
            await asyncio.sleep(0.01)
            found = await cluster.frontier.queries.next_pages(crawl, 100)
        await cluster.end_of(crawl, timeout_s=60)
    listed = [each.url.partition(f":{site.port}")[2] for each in found.pages]
    visited = [path for path in site.paths() if path in listed]
    assert len(listed) > 10
    assert visited == listed
    whys = {each.url.rsplit("/", 2)[1]: each.rule for each in found.pages}
    assert whys == {"best": 1, "plain": None, "last": 2}
