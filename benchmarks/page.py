"""Redis' time for one page: lease it, put 20 children of which 70 % are duplicates, settle it."""

from __future__ import annotations

import random

from lib.harness import Benchmark, Figures, Line, measured
from lib.load import KEYS, SPIDER, domain_name, done, fill, links, open_frontier
from redis.asyncio import Redis

from crawlstream.model.effects import Links
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.worker.session import WorkerSession

DOMAINS = 1_000
PAGES = 3_000
BATCH = 50
"""Pages a call: a worker sends at most a thousand links in one."""
OWN_LINKS, FOREIGN_LINKS = 12, 8
DUPLICATES = 0.7


class Web:
    """Makes pages: most links stay in the page's domain, most were seen before."""

    def __init__(self, seen: dict[str, list[str]]) -> None:
        self._seen = seen

    def children(self, domain: str) -> list[Links]:
        """The links of one page: one group of its own domain, one each for the others."""
        others = random.sample(range(DOMAINS), FOREIGN_LINKS)
        return [
            self._group(domain, OWN_LINKS),
            *(self._group(name, 1) for name in map(domain_name, others) if name != domain),
        ]

    def _group(self, domain: str, count: int) -> Links:
        group = links(domain, count)
        known = self._seen.setdefault(domain, [])
        recent = known[-200:]
        old = {
            place: choice
            for place, choice in enumerate(random.sample(recent, min(count, len(recent))))
            if random.random() < DUPLICATES
        }
        fresh = [fp for place, fp in enumerate(group.fingerprints) if place not in old]
        for place, choice in old.items():
            group.fingerprints[place] = choice
        known.extend(fresh)
        return group


async def page_costs(worker: WorkerSession, redis: Redis, web: Web) -> float:
    """Redis' µs a page, in batches as a busy worker has them."""
    answer = await worker.exchange(want=BATCH)
    async with measured(redis) as cost:
        for _ in range(PAGES // BATCH):
            settles = [done(lease, web.children(lease.domain)) for lease in answer.leases]
            answer = await worker.exchange(settles=settles, want=BATCH)
    return cost.cpu_us / PAGES


async def measure(redis: Redis) -> Figures:
    """Measure a worker with links that it has put itself, then one that knows none of them."""
    await fill(*await open_frontier(redis), DOMAINS, 20)
    first, new = (Frontier(redis, KEYS).session(name, SPIDER) for name in ("first", "new"))
    web = Web({})
    await page_costs(first, redis, web)
    return {
        "us": await page_costs(first, redis, web),
        "us_where_others_put": await page_costs(new, redis, web),
    }


if __name__ == "__main__":
    Benchmark(
        name="page",
        about="Redis' µs a page: lease, 20 children of which 70 % duplicates, settle.",
        measure=measure,
        lines={
            "us": Line(floor=170, goal=60, unit="µs"),
            "us_where_others_put": Line(floor=170, goal=60, unit="µs"),
        },
    ).main()
