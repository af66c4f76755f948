"""A crawler that is drained from the dashboard gives back what it has not begun."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

from crawlstream_chaos.witness import Witness
from e2e.cluster import Cluster
from e2e.sites import Serve
from e2e.test_dashboard import Screens
from support.browser import chromium
from support.waiting import WaitUntil

APP = "drained"


async def test_a_person_reads_the_log_of_a_crawler_and_drains_it(
    serve: Serve, cluster: Cluster, witness: Witness, wait_until: WaitUntil, *, tmp_path: Path
) -> None:
    """Its latest lines are shown; then it ends, another takes its place, no page is lost."""
    base = f"http://127.0.0.1:{cluster.environment['CRAWLSTREAM_REST_PORT']}"

    def crawlers() -> set[str]:
        with urlopen(f"{base}/v2/processes", timeout=60) as answer:  # noqa: S310  a local port
            told: Any = json.load(answer)["data"]
        return {one["name"] for one in told if (one["kind"], one["spider"]) == ("crawler", "link")}

    async with serve(hosts=1, pages=60, slow_pages=0) as served, chromium(tmp_path) as browser:
        await cluster.throttle("set", served.web.hosts[0], "--hits", "5", "--window", "1")
        crawlid = f"drained-{served.web.port}"
        seed = {"appid": APP, "crawlid": crawlid, "url": served.web.seed_url, "maxdepth": 9}
        witness.feed(seed)
        await wait_until(lambda: len(served.fetches()) >= 3, timeout_s=90)
        before = await asyncio.to_thread(crawlers)
        name = min(before)
        screens = Screens(await browser.tab(), cluster, wait_until)
        await screens.open(f"/ui/process?name={quote(name)}")
        await screens.reads("Latest lines of its log", "info", name)
        await screens.suits_everybody()
        await screens.tab.click("[data-key=drain] button")
        await screens.confirm()
        await screens.reads("This process has ended")

        async def is_replaced() -> bool:
            now = await asyncio.to_thread(crawlers)
            return name not in now and len(now) == len(before)

        await wait_until(is_replaced, timeout_s=90)
        await witness.ended(crawlid, timeout_s=90)
        assert served.fetches() == served.truth(maxdepth=9).fetches
        assert screens.tab.complaints == []
