"""A whole web of faults: the truth, the ledger, the topics and the site's log are one story.

``FAULT_WEB_PAGES=10000`` asks for the long form, ``FAULT_WEB_SEED`` for another web.
"""

from __future__ import annotations

import os
from collections import Counter

from crawlstream.model.url import canonical
from support.crawler.cluster import CrawlerCluster, counted
from support.fault_web import DEPTH, serving_faults, visits_by_url

pytest_plugins = ["support.crawler.fixtures"]

PAGES = int(os.environ.get("FAULT_WEB_PAGES", "300"))
SEED = int(os.environ.get("FAULT_WEB_SEED", "1"))


async def test_every_url_of_a_web_of_faults_comes_to_its_end(cluster: CrawlerCluster) -> None:
    """Done, failed and redirected pages are the admitted ones, once each, and as the site saw.

    Two workers share the crawl.
    """
    patience = {"RETRY_TIMES": "1", "DOWNLOAD_TIMEOUT": "5"}
    with serving_faults(pages=PAGES, seed=SEED, retry_times=1) as (web, site):
        with cluster.worker(**patience), cluster.worker(**patience):
            crawl = await cluster.feed(web.seed_url, maxdepth=DEPTH)
            state = await cluster.end_of(crawl, timeout_s=60 + PAGES / 10)
        visits = visits_by_url(site)
    ledger = {"done": state.done, "failed": state.failed, "redirected": state.redirected}
    assert ledger == web.counts
    assert state.admitted == len(web.truth)
    assert cluster.failures() == web.failures
    assert state.failed_by_reason == Counter(map(str, web.failures.values()))
    results = cluster.results()
    delivered = {canonical(record["url"]): record["status_code"] for record in results}
    assert delivered == web.delivered
    assert set(counted(results).values()) == {1}
    assert visits == web.visits
