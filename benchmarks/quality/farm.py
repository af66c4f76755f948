"""Measure the share of requests that a link farm gets, with a host budget and without.

An honest web of 600 domains, and a farm of 300 domains that link to each other, with 20 links from
honest pages. Each domain is served on an address of its own, and the cluster crawls them from seeds
on ``SEEDS`` honest domains, at one pace. A figure is the share of the farm in the first requests, a
quarter of the honest pages, as a mean of some graphs: most depends on where the links into the farm
are.

``FARM_SCENES=plain,budget`` crawls in these scenes only; ``FARM_GRAPHS`` is the number of graphs.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import accumulate
from random import Random
from statistics import mean
from typing import Any, ClassVar, NamedTuple

from lib.crawlers import CRAWL
from lib.harness import Benchmark, Figures, Line
from lib.load import KEYS
from lib.processes import CRAWLER, environment, own_kafka, running
from redis.asyncio import Redis

from crawlstream.errors import SetupError
from crawlstream.model.crawl import Entry, Profile
from crawlstream.model.effects import IntakeBatch, Loss, Seed
from crawlstream.model.egress.pools import PoolTable
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from crawlstream.model.url import domain_key, fingerprint, host_of
from crawlstream.wire.stored import encode_entry
from crawlstream_chaos.scripted_site import CrawlerSite, Page, page, serving
from crawlstream_frontier.frontier import Frontier

DOMAINS, PAGES, SEEDS = 600, 3_000, 10
FARM_DOMAINS, FARM_PAGES, DOORS, FARM_LINKS = 300, 3_000, 20, 30
SHARE = 0.25
RULE = ThrottleRule(hits=20, window_s=1, concurrency=2)
AT_ONCE = "16"
"""Requests in progress, so that the order of the frontier is that of the requests."""
LONGEST_S = 120.0
SCENES: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "inlinks": {"score": "inlinks"},
    "budget": {"host_budget": (10, 10)},
    "both": {"host_budget": (10, 10), "score": "inlinks"},
}


class Web(NamedTuple):
    """Pages by number: the links of each, and its domain. Those from ``honest`` on are the farm."""

    links: Sequence[Sequence[int]]
    domains: Sequence[int]
    honest: int

    def path(self, number: int) -> str:
        """Return host and path of a page."""
        domain = self.domains[number]
        return f"127.{10 + domain // 62_500}.{domain // 250 % 250}.{1 + domain % 250}/{number}"


def web(random: Random) -> Web:
    """Return a web whose domains have sizes and fame by Zipf's law, and a farm."""
    sizes = [max(3, int(PAGES / DOMAINS * 3 / (1 + rank) ** 0.7)) for rank in range(DOMAINS)]
    firsts = [0, *accumulate(sizes)][:-1]
    domains = [domain for domain, size in enumerate(sizes) for _ in range(size)]
    fame = [1 / (1 + rank) for rank in random.sample(range(DOMAINS), DOMAINS)]
    links: list[list[int]] = [[] for _ in domains]
    for number, domain in enumerate(domains):
        for _ in range(8):
            is_within = random.random() < 0.75
            target = domain if is_within else random.choices(range(DOMAINS), fame)[0]
            depth = random.random() ** (2 if is_within else 3)
            links[number].append(firsts[target] + int(sizes[target] * depth))
        if number > firsts[domain]:
            parent = firsts[domain] + int((number - firsts[domain]) * random.random())
            links[parent].append(number)
    honest = len(links)
    farm = range(honest, honest + FARM_PAGES)
    each = FARM_PAGES // FARM_DOMAINS
    for number in farm:
        front = honest + (number - honest) // each * each
        links.append([*random.sample(farm, FARM_LINKS), front])
        domains.append(DOMAINS + (number - honest) // each)
    for _ in range(DOORS):
        links[random.randrange(honest)].append(random.choice(farm))
    return Web(links, domains, honest)


class WebSite(CrawlerSite):
    """A web, each domain on an address of its own."""

    web: ClassVar[Web]

    def page_at(self, host: str, path: str) -> Page:
        """Return a page with its links."""
        del host
        targets = self.web.links[int(path.removeprefix("/"))]
        return page(*(self._url_of(target) for target in dict.fromkeys(targets)))

    def _url_of(self, number: int) -> str:
        host, _, path = self.web.path(number).partition("/")
        return self.url(f"/{path}", host)


async def _feed(redis: Redis, urls: Sequence[str], fields: Mapping[str, Any]) -> None:
    """Begin a crawl with these seeds, in an empty frontier."""
    await redis.flushall()
    frontier = Frontier(redis, KEYS)
    await frontier.positions.restore(Loss(topic_id="in", kafka_partition=0, offset=0))
    await frontier.pools.copy(PoolTable(czxid=1, mzxid=1))
    await frontier.rules.copy(ThrottleTable(default=RULE, czxid=1, mzxid=1))
    profile = Profile(maxdepth=300, guard="off", **fields)
    seeds = [
        Seed(
            offset=offset,
            timestamp_ms=1,
            crawl=CRAWL,
            domain=domain_key(host_of(url)),
            priority=1,
            fingerprint=fingerprint(url),
            entry=encode_entry(Entry(url=url, origin=f"in-0-{offset}")),
            profile=profile,
        )
        for offset, url in enumerate(urls)
    ]
    batch = IntakeBatch(topic_id="in", kafka_partition=0, start=0, next=len(seeds), records=seeds)
    await frontier.intake.apply(batch)


async def _share(
    redis: Redis, env: Mapping[str, str], folder: str, fields: Mapping[str, Any]
) -> float:
    """Crawl the present web; return the share of its farm in the first requests."""
    served = WebSite.web
    wanted = int(served.honest * SHARE)
    with serving({}, WebSite) as site:
        numbers = [served.honest * n // SEEDS for n in range(SEEDS)]
        places = [served.path(number).partition("/") for number in numbers]
        await _feed(redis, [site.url(f"/{path}", host) for host, _, path in places], fields)
        deadline = time.monotonic() + LONGEST_S
        with running(*CRAWLER, folder=folder, **env, CONCURRENT_REQUESTS=AT_ONCE):
            while len(site.visits) < wanted and time.monotonic() < deadline:
                await asyncio.sleep(0.1)
        visits = site.paths()[:wanted]
    if len(visits) < wanted:
        raise SetupError(f"{len(visits)} of {wanted} pages were requested in {LONGEST_S:.0f} s")
    return sum(int(path[1:]) >= served.honest for path in visits) / wanted


async def measure(redis: Redis) -> Figures:
    """Crawl each graph in each scene."""
    wanted = os.environ.get("FARM_SCENES", ",".join(SCENES)).split(",")
    shares: dict[str, list[float]] = {name: [] for name in wanted}
    with tempfile.TemporaryDirectory(prefix="crawlstream-bench-") as folder:
        async with own_kafka(folder) as kafka:
            env = environment(redis, kafka, folder)
            for number in range(int(os.environ.get("FARM_GRAPHS", "6"))):
                WebSite.web = web(Random(number))
                for name in wanted:
                    shares[name].append(await _share(redis, env, folder, SCENES[name]))
    figures = {name: mean(some) for name, some in shares.items()}
    return {**figures, **{f"{name}_most": max(some) for name, some in shares.items()}}


if __name__ == "__main__":
    Benchmark(
        name="farm",
        about="Share of the first requests that a link farm of 300 domains gets.",
        measure=measure,
        lines={"budget": Line(floor=0.12, goal=0.07, unit="")},
        repetitions=1,
    ).main()
