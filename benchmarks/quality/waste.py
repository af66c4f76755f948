"""Compare crawls of sites with and without traps, with the waste guard off, watching and on.

The sites are generated, and each is served on an address of its own. Two workers crawl all of them
at once, at one pace. A site with a trap is counted up to ``BUDGET`` fetches, as it has no end;
honest sites that look like traps are crawled to their end, in mode ``on``: no page of them may be
lost. A page is worth having if its content is: the site knows, the crawler does not.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from lib.crawlers import CRAWL
from lib.harness import Benchmark, Figures, Line
from lib.load import KEYS
from lib.processes import CRAWLER, environment, own_kafka, running
from redis.asyncio import Redis

from crawlstream.model.crawl import Entry, Profile
from crawlstream.model.effects import IntakeBatch, Loss, Seed
from crawlstream.model.egress.pools import PoolTable
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from crawlstream.model.url import domain_key, fingerprint, host_of
from crawlstream.wire.stored import encode_entry
from crawlstream_chaos.scripted_site import serving
from crawlstream_chaos.waste_sites.honest import HONEST
from crawlstream_chaos.waste_sites.served import ManySites, SiteLog
from crawlstream_chaos.waste_sites.site import GeneratedSite
from crawlstream_chaos.waste_sites.traps import (
    Calendar,
    GrowingPaths,
    Orders,
    Searches,
    SessionIds,
    SoftErrors,
)
from crawlstream_frontier.frontier import Frontier

TRAPS = (Calendar, SessionIds, Orders, GrowingPaths, SoftErrors, Searches)
BUDGET = 3_000
RULE = ThrottleRule(hits=50, window_s=1, concurrency=8)
WORKERS = 2
_LOOK_S = 0.5


async def _feed(redis: Redis, urls: Mapping[str, str], guard: str) -> Frontier:
    """Return a frontier with a seed of each site, a crawl each."""
    await redis.flushall()
    frontier = Frontier(redis, KEYS)
    await frontier.positions.restore(Loss(topic_id="in", kafka_partition=0, offset=0))
    await frontier.pools.copy(PoolTable(czxid=1, mzxid=1))
    await frontier.rules.copy(ThrottleTable(default=RULE, czxid=1, mzxid=1))
    seeds = [
        Seed(
            offset=offset,
            timestamp_ms=1,
            crawl=replace(CRAWL, crawlid=host),
            domain=domain_key(host_of(url)),
            priority=1,
            fingerprint=fingerprint(url),
            entry=encode_entry(Entry(url=url, origin=f"in-0-{offset}")),
            profile=Profile(seed_url=url, maxdepth=300, guard=guard),
        )
        for offset, (host, url) in enumerate(urls.items())
    ]
    batch = IntakeBatch(topic_id="in", kafka_partition=0, start=0, next=len(seeds), records=seeds)
    await frontier.intake.apply(batch)
    return frontier


async def _is_over(frontier: Frontier, log: SiteLog, host: str) -> bool:
    if not log.site.is_honest and log.fetches >= BUDGET:
        return True
    state = await frontier.queries.crawl_state(replace(CRAWL, crawlid=host))
    return state is not None and bool(state.admitted) and not (state.pending or state.held)


async def _crawl(
    redis: Redis, kafka: str, folder: str, kinds: Sequence[type[GeneratedSite]], guard: str
) -> Mapping[str, SiteLog]:
    """Crawl sites until each has ended, or has had its budget.

    Return their logs, keyed by the name of the site.
    """
    ManySites.host({f"127.0.1.{n}": kind() for n, kind in enumerate(kinds, 1)})
    with serving({}, ManySites) as web, ExitStack() as workers:
        urls = {host: web.url("/", host) for host in ManySites.logs}
        frontier = await _feed(redis, urls, guard)
        for _ in range(WORKERS):
            env = environment(redis, kafka, folder)
            workers.enter_context(running(*CRAWLER, folder=folder, **env))
        for host, log in ManySites.logs.items():
            while not await _is_over(frontier, log, host):
                await asyncio.sleep(_LOOK_S)
    return {log.site.name: log for log in ManySites.logs.values()}


def _figures(logs: Mapping[str, SiteLog], guard: str) -> dict[str, float]:
    """Return the means of the sites with traps."""
    traps = [log for log in logs.values() if not log.site.is_honest]
    return {
        f"share_{guard}": statistics.mean(log.share(BUDGET) for log in traps),
        f"until_95_{guard}": statistics.mean(
            log.until(0.95, BUDGET) / log.site.size for log in traps
        ),
    }


def _of_site(log: SiteLog, guard: str) -> dict[str, float]:
    name = f"{log.site.name.replace(' ', '_')}_{guard}"
    return {
        f"{name}_fetches": log.fetches,
        f"{name}_until_95": log.until(0.95, log.fetches) / log.site.size,
    }


async def measure(redis: Redis) -> Figures:
    """Crawl the sites with traps in each mode, and the honest ones in mode ``on``."""
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="crawlstream-bench-") as folder:
        async with own_kafka(folder) as kafka:
            for guard in ("off", "watch", "on"):
                kinds = (*TRAPS, *HONEST) if guard == "on" else TRAPS
                logs = await _crawl(redis, kafka, folder, kinds, guard)
                figures |= _figures(logs, guard)
                for log in logs.values():
                    figures |= _of_site(log, guard)
            figures["lost_on"] = sum(log.lost for log in logs.values() if log.site.is_honest)
            figures["lost_in_traps_on"] = sum(
                log.lost for log in logs.values() if not log.site.is_honest and log.fetches < BUDGET
            )
    return figures


if __name__ == "__main__":
    Benchmark(
        name="waste",
        about="Requests for pages worth having, with and without the waste guard.",
        measure=measure,
        lines={
            "until_95_on": Line(floor=1.50, goal=1.20, unit="fetches a page"),
            "lost_on": Line(floor=0, goal=0, unit="pages"),
            "lost_in_traps_on": Line(floor=0, goal=0, unit="pages"),
        },
        repetitions=1,
    ).main()
