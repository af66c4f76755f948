"""Promotion by in-links in a whole crawl, by the site's own log."""

from __future__ import annotations

import threading

from crawlstream.model.throttle_table import ThrottleRule
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, SeenRequest, page
from support.crawler.cluster import CrawlerCluster
from support.waiting import wait_until

pytest_plugins = ["support.crawler.fixtures"]

ONE_BY_ONE = ThrottleRule(hits=1000, window_s=1, moderated=False, concurrency=1)
SECOND, THIRD, SHOP = "127.0.0.2", "127.0.0.3", "127.0.0.4"


async def test_a_page_with_links_of_three_domains_is_fetched_before_its_siblings(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """It is fetched once, and with its own depth: the page below it is within ``maxdepth``.

    That page gets no better turn for it.
    """
    is_linked = threading.Event()

    def first(_: SeenRequest) -> Answer:
        is_linked.wait(60)
        return page()

    shop = [site.url(f"/{number}", SHOP) for number in range(6)]
    site.pages |= {
        "127.0.0.1/": page(*shop, site.url("/", SECOND), site.url("/", THIRD)),
        **dict.fromkeys((f"{SECOND}/", f"{THIRD}/"), page(shop[-1])),
        **dict.fromkeys((f"{SHOP}/{number}" for number in range(1, 5)), page()),
        f"{SHOP}/0": first,
        f"{SHOP}/5": page(site.url("/below", SHOP)),
        f"{SHOP}/below": page(),
    }
    cluster.env["DOWNLOAD_TIMEOUT"] = "90"
    await cluster.set_rules(ONE_BY_ONE, {})
    asked = {"url": site.url("/"), "maxdepth": 2, "score": "inlinks"}
    with cluster.worker():
        crawl = await cluster.ask(asked)

        async def is_found() -> bool:
            return (await cluster.state_of(crawl)).admitted == 10

        await wait_until(is_found)
        is_linked.set()
        state = await cluster.end_of(crawl, timeout_s=60)
    visited = [visit.path for visit in site.visits if visit.host == SHOP]
    assert visited == ["/0", "/5", "/1", "/2", "/3", "/4", "/below"]
    assert (state.done, state.redirected, state.done_by_status["promoted"]) == (10, 1, 1)
