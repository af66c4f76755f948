"""Compare a memory that visits pages as often as they change with one interval for all.

At the same cost. A site has pages that change at random moments, each at a rate of its own: from
every few seconds to once in half an hour. A cluster crawls it once; then its memory visits it, with
``per_day`` set to six visits a second. It repeats this with ``power = 0``, a fixed interval. The
referee is the site: it knows when each page has changed, and its log says when each was fetched, or
found unmodified. Measurement begins when the memory has learnt for some minutes.
"""

from __future__ import annotations

import asyncio
import math
import random
import statistics
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
from lib.harness import Benchmark, Figures, Line
from lib.load import KEYS, WIDE_OPEN
from lib.processes import (
    CRAWLER,
    MONITOR,
    REDIS_MONITOR,
    TOPICS,
    environment,
    own_kafka,
    running,
)
from redis.asyncio import Redis

from crawlstream.bus.connect import Kafka
from crawlstream.bus.records import Out
from crawlstream.bus.sink import KafkaSink
from crawlstream.model.throttle_table import ThrottleTable
from crawlstream_chaos.scripted_site import HTML, Answer, CrawlerSite, SeenRequest, page, serving
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.layout import create_frontier

PAGES, PER_S = 120, 6
SHORTEST_S, LONGEST_S = 4.0, 1_800.0
"""Mean times between two changes of the page that changes most often, and most seldom."""
LEARN_S, MEASURE_S = 160.0, 100.0
PIPELINE = (sys.executable, "-P", "-m", "pipeline_service", "run")
HUB = "/"


@dataclass(frozen=True, slots=True)
class Changing:
    """A page and the moments at which it changes."""

    path: str
    moments: Sequence[float]

    def version(self, at: float) -> int:
        """Return how often it has changed by then."""
        return bisect_right(self.moments, at)

    def answer(self, visit: SeenRequest) -> Answer:
        """The page as it is, unless the visitor has it."""
        etag = f'"{self.version(visit.at)}"'
        headers = {**HTML, "ETag": etag}
        if visit.headers.get("if-none-match") == etag:
            return Answer(status=304, headers=headers)
        return Answer(f"<p>{self.path} has changed {etag} times".encode(), headers=headers)


def _web(began: float, ends: float) -> Sequence[Changing]:
    """Return the same pages for each rule, with the same changes."""
    chance = random.Random(7)
    pages = []
    for number in range(PAGES):
        gap_s = math.exp(chance.uniform(math.log(SHORTEST_S), math.log(LONGEST_S)))
        moments, at = [], began
        while (at := at + chance.expovariate(1 / gap_s)) < ends:
            moments.append(at)
        pages.append(Changing(f"/{number}", moments))
    return pages


def _pipelines(folder: str, power: float) -> Path:
    file = Path(folder) / "pipelines.toml"
    file.write_text(
        f'[pipeline.memory.sink]\nkind = "pages"\nurl = "sqlite:///{folder}/memory.db"\n'
        f"[pipeline.memory.visits]\nper_day = {PER_S * 86_400}\nmin = 1\nmax = 600\n"
        f"power = {power}\n"
    )
    return file


async def _log_of(
    redis: Redis, power: float
) -> tuple[Sequence[Changing], list[SeenRequest], float]:
    """The pages, the site's log, and since when it counts."""
    frontier = Frontier(redis, KEYS)
    await create_frontier(frontier.scripts)
    await frontier.rules.copy(ThrottleTable(default=WIDE_OPEN, czxid=1, mzxid=1))
    began = time.time()
    pages = _web(began, began + 3_600)
    answers: dict[str, Callable[[SeenRequest], Answer] | Answer] = {p.path: p.answer for p in pages}
    answers[HUB] = page(*answers)
    with (
        serving(answers) as site,
        tempfile.TemporaryDirectory(prefix="crawlstream-bench-") as folder,
    ):
        async with own_kafka(folder) as address:
            env = {
                **environment(redis, address, folder),
                "CRAWLSTREAM_PIPELINES": str(_pipelines(folder, power)),
            }
            with (
                running(*MONITOR, folder=folder, **env),
                running(*REDIS_MONITOR, folder=folder, **env),
                running(*CRAWLER, folder=folder, **env),
                running(*PIPELINE, folder=folder, **env),
            ):
                await _crawl(address, site)
                counts_from = time.time() + LEARN_S
                await asyncio.sleep(LEARN_S + MEASURE_S)
                return pages, list(site.visits), counts_from


async def _crawl(address: str, site: CrawlerSite) -> None:
    """Have each page fetched once."""
    seed = {"url": site.url(HUB), "appid": "bench", "crawlid": "first", "maxdepth": 1}
    async with KafkaSink(Kafka([address])) as sink:
        await sink.send([Out(TOPICS.incoming, orjson.dumps(seed), b"bench:first")])
    deadline = time.monotonic() + 120
    while len(set(site.paths())) <= PAGES:
        if time.monotonic() > deadline:
            raise SystemExit(f"only {len(set(site.paths()))} pages were crawled")
        await asyncio.sleep(0.5)


async def _judged(redis: Redis, power: float) -> Figures:
    pages, log, begins = await _log_of(redis, power)
    ends = begins + MEASURE_S
    fresh, delays, fetched, conditional, unmodified = [], [], 0, 0, 0
    for one in pages:
        visits = sorted(v.at for v in log if v.path == one.path)
        fresh.append(_fresh_s(one, visits, begins, ends) / MEASURE_S)
        for moment in (m for m in one.moments if begins <= m < ends):
            seen = bisect_right(visits, moment)
            # A change that was never seen counts as unseen until the end.
            delays.append((visits[seen] if seen < len(visits) else ends) - moment)
        counted = [v for v in log if v.path == one.path and begins <= v.at < ends]
        fetched += len(counted)
        asked = [v for v in counted if "if-none-match" in v.headers]
        conditional += len(asked)
        unmodified += sum(v.headers["if-none-match"] == f'"{one.version(v.at)}"' for v in asked)
    return {
        "fresh": statistics.mean(fresh),
        "delay_s": statistics.mean(delays),
        "visits_per_s": fetched / MEASURE_S,
        "unmodified": unmodified / max(conditional, 1),
    }


def _fresh_s(one: Changing, visits: Sequence[float], begins: float, ends: float) -> float:
    """For how long of that time the last visit has seen the page as it was."""
    fresh, at = 0.0, begins
    for until in [*(v for v in visits if begins < v < ends), ends]:
        last = visits[bisect_right(visits, at) - 1]
        changed = bisect_right(one.moments, last)
        next_change = one.moments[changed] if changed < len(one.moments) else math.inf
        fresh += max(min(next_change, until) - at, 0)
        at = until
    return fresh


async def measure(redis: Redis) -> Figures:
    """Both rules, one after the other."""
    ours = await _judged(redis, 0.4)
    await redis.flushall()
    fixed = await _judged(redis, 0.0)
    return {
        "fresh_more": ours["fresh"] - fixed["fresh"],
        "delay_ratio": ours["delay_s"] / fixed["delay_s"],
        "visits_ratio": ours["visits_per_s"] / fixed["visits_per_s"],
        **{f"ours_{name}": value for name, value in ours.items()},
        **{f"fixed_{name}": value for name, value in fixed.items()},
    }


if __name__ == "__main__":
    Benchmark(
        name="freshness",
        about="Pages that change at known rates: freshness, and how long changes are unseen, with"
        " visits by changes and at a fixed interval.",
        measure=measure,
        lines={
            "fresh_more": Line(floor=0.02, goal=0.04, unit="", more=True),
            "delay_ratio": Line(floor=0.7, goal=0.45, unit=""),
        },
        repetitions=1,
    ).main()
