"""Results are what the site sent, whatever that is.

A whole web of faults: the truth, the ledger, the topics and the site's log are one story.

``FAULT_WEB_PAGES=10000`` asks for the long form, ``FAULT_WEB_SEED`` for another web.
"""

from __future__ import annotations

import gzip
import os
from base64 import b64decode
from collections import Counter

from crawlstream.model.url import canonical
from crawlstream_chaos.scripted_site import Answer, serving
from support.crawler.cluster import CrawlerCluster, counted
from support.crawler.ways import both_ways
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


@both_ways
async def test_a_crawl_that_archives_has_the_bytes_of_its_site(cluster: CrawlerCluster) -> None:
    """Heads in their order and spelling, bodies before decoding; another crawl has neither."""
    head = b"HTTP/1.1 200 Fine\r\nX-b: 1\r\nx-A:  \xe9 \r\nX-b: 2\r\n"
    packed = gzip.compress(b"<a href=/plain>plain</a>")
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(packed), packed)
    coded = head + b"content-type: text/html\r\nContent-Encoding: gzip\r\n"
    coded += b"Transfer-Encoding: chunked\r\n"
    pages = {
        "/coded": Answer(raw=coded + b"\r\n" + chunked),
        "/plain": Answer(raw=head + b"Content-Length: 2\r\n\r\nok"),
    }
    with serving(pages) as site, cluster.worker():
        for archive in (True, None):
            seed = {"url": site.url("/coded"), "maxdepth": 1, "archive": archive}
            await cluster.end_of(await cluster.ask(seed), timeout_s=30)
    first, *others = sorted(cluster.results(), key=lambda result: "as_sent" not in result)
    sent = {result["url"]: result["as_sent"] for result in (first, others[0])}
    assert sent[site.url("/coded")]["head"].encode("latin-1") == coded
    assert b64decode(sent[site.url("/coded")]["body"]) == packed
    plain = {"head": (head + b"Content-Length: 2\r\n").decode("latin-1")}
    assert sent[site.url("/plain")] == plain
    assert [result.get("as_sent") for result in others[1:]] == [None]
