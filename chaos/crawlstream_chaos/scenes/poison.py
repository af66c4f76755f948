"""A page that kills every worker that parses it."""

from __future__ import annotations

import asyncio
import os

from crawlstream_chaos.facts.facts import FedCrawl
from crawlstream_chaos.faults import Fault, FaultContext, FaultEffect, leased
from crawlstream_chaos.rounds import Round
from crawlstream_chaos.strikes.extra_processes import extra_crawler

_POISONED = """
import os, signal
from crawling import ClusterSpider

class PoisonedSpider(ClusterSpider):
    name = "poisoned"

    def parse(self, response):
        if response.url == os.environ["POISON"]:
            os.kill(os.getpid(), signal.SIGKILL)
        yield self.result(response)
"""
_SEEDS = 20


async def eat_poison(round_: Round) -> None:
    """A page kills every worker that parses it; it is given up after three, and no other is."""
    cluster = round_.cluster
    poison, *others = cluster.plain_urls()[:_SEEDS]
    fed = FedCrawl(
        crawlid=f"{round_.name}-{cluster.web.port}",
        spiderid="poisoned",
        delivered=dict.fromkeys(others, 200),
        failed={poison: "killed_worker"},
    )
    (cluster.home / "poisoned.py").write_text(_POISONED)
    path = os.pathsep.join(filter(None, (str(cluster.home), os.environ.get("PYTHONPATH"))))
    environment = {
        "PYTHONPATH": path, "CRAWLSTREAM_SPIDER_MODULES": "poisoned", "POISON": poison,
    }  # fmt: skip
    await round_.feed(fed, *others[: _SEEDS // 2], poison, *others[_SEEDS // 2 :])

    async def eat(context: FaultContext) -> FaultEffect:
        in_flight = await leased(context)
        await asyncio.to_thread(crawler.wait)
        return FaultEffect(poison, in_flight)

    async with extra_crawler(round_.context, "poisoned", **environment) as crawler:
        for _ in range(3):
            await round_.strike(Fault("poison", "", eat), round_.context)
            crawler.start()
        await cluster.recorder.ended(fed.crawlid, timeout_s=120)
