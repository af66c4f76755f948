"""Pages that a crawler ends before their requests, with a real Redis and a real Kafka."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from crawlstream.model.throttle_table import ThrottleRule
from crawlstream_chaos.processes import RunningServer
from crawlstream_chaos.scripted_site import CrawlerSite, page
from support.crawler.cluster import CrawlerCluster
from support.session.own import own_redis_server
from support.waiting import WaitUntil

__all__ = ["own_redis_server"]

pytest_plugins = ["support.crawler.fixtures"]

SPIDER = """
from crawling import ClusterSpider
from crawling.page.scrapy_request import page_of
from crawling.parts import Parts
from scrapy.exceptions import IgnoreRequest

class Skipper:
    @classmethod
    def from_crawler(cls, crawler):
        skipper = cls()
        skipper.crawler = crawler
        return skipper

    async def process_request(self, request):
        if "/skip/" in request.url:
            skipping = Parts.of(self.crawler).endings.skipping
            await skipping.skip([page_of(request)], reason="guard_path", family="/skip/#")
            raise IgnoreRequest

class Skipped(ClusterSpider):
    name = "skipped"
    custom_settings = {"DOWNLOADER_MIDDLEWARES": {"skipped.Skipper": 300}}

    def parse(self, response):
        yield self.result(response)
        yield from response.follow_all(css="a")
"""


@pytest.fixture
def users(cluster: CrawlerCluster, tmp_path: Path) -> Mapping[str, str]:
    """Environment of a crawler whose spider skips pages."""
    (tmp_path / "skipped.py").write_text(SPIDER)
    path = os.pathsep.join(filter(None, (str(tmp_path), cluster.env.get("PYTHONPATH"))))
    return {"PYTHONPATH": path, "CRAWLSTREAM_SPIDER_MODULES": "skipped"}


def told(cluster: CrawlerCluster) -> list[tuple[str, str]]:
    """Return id and URL of each page in the events, with repetitions."""
    events = [e for e in cluster.records(cluster.topics.events) if e["event"] == "pages_skipped"]
    assert all(event["count"] == len(event["pages"]) for event in events)
    return [(page["id"], page["url"]) for event in events for page in event["pages"]]


async def test_a_skipped_page_is_an_event_and_no_request(
    cluster: CrawlerCluster, site: CrawlerSite, users: Mapping[str, str]
) -> None:
    """It costs no turn: forty of them end in a fraction of the time of forty requests."""
    await cluster.set_rules(ThrottleRule(hits=2, window_s=1), {})
    skipped = [f"/skip/{n}" for n in range(40)]
    site.pages |= {"/": page(*skipped), "/last": page()}
    with cluster.worker("skipped", **users):
        crawl = await cluster.feed(site.url("/"), maxdepth=1, spiderid="skipped")
        state = await cluster.end_of(crawl, timeout_s=15)
    assert (state.done, state.skipped, state.skipped_by_reason) == (1, 40, {"guard_path": 40})
    assert sorted(url for _, url in told(cluster)) == sorted(map(site.url, skipped))
    assert site.paths() == ["/"]


async def test_redis_killed_among_skips_costs_no_page(
    cluster: CrawlerCluster,
    site: CrawlerSite,
    users: Mapping[str, str],
    redis_server: RunningServer,
    wait_until: WaitUntil,
) -> None:
    """The crawler reports the ends again; every page has an event, under one id."""
    await cluster.set_rules(ThrottleRule(hits=20, window_s=1, moderated=False), {})
    skipped = [site.url(f"/skip/{n}") for n in range(150)]
    crawl = await cluster.feed(*skipped, spiderid="skipped")
    with cluster.worker("skipped", **users):

        async def has_begun() -> bool:
            return (await cluster.state_of(crawl)).skipped > 20

        await wait_until(has_begun)
        redis_server.kill()
        redis_server.start()
        state = await cluster.end_of(crawl, timeout_s=60)
    assert (state.skipped, state.done, state.failed) == (150, 0, 0)
    pages = {*told(cluster)}
    assert len(pages) == 150 == len({url for _, url in pages})
    assert not site.paths()


@pytest.mark.parametrize("step", ["after_publish", "before_settle", "after_settle"])
async def test_pages_of_a_crawler_that_died_come_again_under_their_ids(
    cluster: CrawlerCluster, site: CrawlerSite, users: Mapping[str, str], step: str
) -> None:
    """Killed between the event and the end, or around the end: none is lost, none counts twice."""
    skipped = [site.url(f"/skip/{n}") for n in range(30)]
    crawl = await cluster.feed(*skipped, spiderid="skipped")
    with cluster.worker("skipped", **users, FAILPOINT=f"{step}:kill:2") as doomed:
        assert doomed.wait() == -signal.SIGKILL
    before = {*told(cluster)}
    assert before
    assert (await cluster.state_of(crawl)).residual == 0
    with cluster.worker("skipped", **users):
        state = await cluster.end_of(crawl, timeout_s=60)
    assert (state.skipped, state.done, state.failed) == (30, 0, 0)
    pages: Counter[Any] = Counter(told(cluster))
    assert before <= {*pages}
    assert len(pages) == 30 == len({url for _, url in pages})
    assert not site.paths()
