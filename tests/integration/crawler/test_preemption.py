"""A machine that is taken away with notice: nothing is lost, and nothing waits for it."""

from __future__ import annotations

import itertools
import os
import signal
import time
from typing import Any

from crawlstream_chaos.scripted_site import Answer, CrawlerSite, page
from support.crawler.cluster import CrawlerCluster, counted
from support.waiting import WaitUntil

pytest_plugins = ["support.crawler.fixtures"]

NOTICE_S = float(os.environ.get("SPOT_NOTICE_S", "12"))
"""From the notice to the end, 10 s before which the last pages are released. Google and Azure give
30; a test in a hurry need not wait for the other 18."""


def slow_at_first() -> Any:
    """A page that takes longer than the notice, once."""
    visits = itertools.count()
    return lambda _visit: Answer(b"<p>", after_s=60) if next(visits) == 0 else page()


async def test_a_spot_worker_gives_everything_back_before_it_ends(
    cluster: CrawlerCluster, site: CrawlerSite, wait_until: WaitUntil
) -> None:
    """Done pages are published, others that take too long released, all within the notice."""
    quick, slow = [f"/quick/{n}" for n in range(200)], [f"/slow/{n}" for n in range(4)]
    site.pages |= {path: Answer(b"<p>", after_s=0.2) for path in quick}
    site.pages |= {path: slow_at_first() for path in slow}
    notice = cluster.home / "notice"
    crawl = await cluster.feed(*map(site.url, [*slow, *quick]))
    with cluster.worker(
        CONCURRENT_REQUESTS="8",
        DOWNLOAD_TIMEOUT="120",
        CRAWLSTREAM_NOTICE=f"file:{notice}",
        CRAWLSTREAM_NOTICE_S=str(NOTICE_S),
    ) as spot:
        await wait_until(lambda: set(slow) <= set(site.paths()) and len(site.visits) > 20)
        notice.touch()
        told_at = time.monotonic()
        await wait_until(lambda: _released(spot.events()))
        state = await cluster.state_of(crawl)
        while state.held:
            state = await cluster.state_of(crawl)
        assert time.monotonic() - told_at < 30
        assert (state.failed, state.residual) == (0, 0)
        assert 0 < state.done < 204
        assert spot.is_running()
        spot.signal(signal.SIGKILL)
    with cluster.worker():
        await cluster.end_of(crawl, timeout_s=60)
    assert set(counted(cluster.results())) == {site.url(path) for path in [*quick, *slow]}
    assert max(counted(cluster.results()).values()) == 1
    assert {record["attempt"] for record in cluster.results()} == {1}


def _released(events: list[dict[str, Any]]) -> bool:
    return any(event.get("outcome") == "out_of_time" for event in events)
