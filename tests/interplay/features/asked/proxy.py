"""A pool of proxies for the pages of a crawl."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from interplay.story import Feature, Story


class Proxied(Feature):
    """Sends all requests of the crawl through a proxy."""

    name = "proxy"
    about = "all pages of the crawl come through a pool with one proxy"

    def arrange(self, story: Story) -> None:
        """Ask for it."""
        story.request["proxy"] = story.ground.POOL

    async def prepare(self, story: Story) -> None:
        """Have a proxy run, and wait until the cluster knows it."""
        await story.ground.open_proxy()

    def expect(self, story: Story) -> Sequence[str]:
        """Return the requests that came past it, and the pages that say so."""
        through = Counter((seen.host, seen.path) for seen in story.ground.proxy.seen.departures)
        came = Counter((visit.host, visit.path) for visit in story.visits)
        past = [f"{host}{path} was requested directly" for host, path in came - through]
        pools = {r.value["url"]: r.value.get("proxy") for r in story.records("crawled_firehose")}
        return past + [
            f"{url} names {way} as its proxy"
            for url, way in pools.items()
            if (way or {}).get("pool") != story.ground.POOL
        ]
