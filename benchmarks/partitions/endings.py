"""How many open runs are looked at a second, and how soon a run that is over says so.

Sixteen partitions in one Redis, ten thousand runs that are open because a page of theirs waits.
The looks are those of one redis-monitor's duty; the delays are from the settle of a last page to
the record on the topic of events, with a real redis-monitor at a grace of 0: with no other run
open, and with all of them.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson
from latency import percentiles
from lib.divided import LINKS, feed, open_divided, seed
from lib.harness import Benchmark, Figures, Line, measured
from lib.load import SPIDER, domain_name, done
from lib.processes import REDIS_MONITOR, TOPICS, divided, environment, own_kafka, running
from redis.asyncio import Redis

from crawlstream.bus.connect import Kafka
from crawlstream.bus.outbound import Outbound
from crawlstream.bus.tail import end_offsets, read_topic
from crawlstream.model.crawl import CrawlKey
from crawlstream_frontier.partitions.frontiers import Frontiers
from crawlstream_frontier.partitions.labelling import Labelling
from redis_monitor.partitions.endings import RUNS_A_LOOK, Endings

NUMBER, OPEN, A_FEED = 16, 10_000, 200
ENDED, PAUSE_S = 40, 0.25
ROUNDS = 3
NO_GRACE = {"CRAWLSTREAM_FINISH_GRACE": "0"}
PATIENCE_S = 60.0
FOR_EVER_MS = 10**9


class Runs:
    """Feeds crawls of one page each, at offsets that go on."""

    def __init__(self, frontiers: Frontiers) -> None:
        self.frontiers = frontiers
        self.next = 0

    async def open(self, names: Sequence[str], *, priority: int) -> None:
        """A run for each of these."""
        seeds = []
        for name in names:
            one = seed(self.next, domain_name(self.next), CrawlKey(SPIDER, "bench", name))
            seeds.append(replace(one, priority=priority))
            self.next += 1
        for start in range(0, len(seeds), A_FEED):
            await feed(self.frontiers, seeds[start : start + A_FEED])

    async def end(self, name: str) -> float:
        """Feed a page, lease it before all others, settle it; when that was, by the clock."""
        partition = self.frontiers.partitions.of(domain_name(self.next))
        await self.open([name], priority=99)
        session = self.frontiers.session(partition, f"worker-{name}", SPIDER)
        while not (leases := (await session.exchange(want=1)).leases):
            await asyncio.sleep(0.01)
        assert leases[0].crawl.crawlid == name
        await session.exchange(settles=[done(leases[0])])
        return time.time()


async def looks(frontiers: Frontiers) -> Figures:
    """Rounds over all open runs, of all coordinators one after the other, without a pause."""

    async def links_topic() -> str:
        return LINKS

    # No ends by the clocks of coordinators are recorded, for they end nothing.
    no_sink: Any = None
    labelling = Labelling(frontiers)
    duties = [
        Endings(
            frontiers,
            p,
            labelling,
            outbound=Outbound(no_sink, TOPICS),
            sleeper=frontiers.sleeper(p, "bench"),
            grace_ms=0,
            dedupe_ms=FOR_EVER_MS,
            links_topic=links_topic,
        )
        for p in range(NUMBER)
    ]
    redis = frontiers.root.scripts.redis
    await one_round(duties)
    await redis.config_resetstat()
    async with measured(redis) as cost:
        for _ in range(ROUNDS):
            await one_round(duties)
    await labelling.stop()
    slowest = await redis.info("latencystats")
    return {
        "looks_per_s": ROUNDS * OPEN / cost.wall_s,
        "redis_us_a_look": cost.cpu_us / ROUNDS / OPEN,
        "calls_a_look": cost.calls / ROUNDS / OPEN,
        "script_p999_ms": slowest["latency_percentiles_usec_evalsha"]["p99.9"] / 1000,
    }


async def one_round(duties: Sequence[Endings]) -> None:
    """Every open run once."""
    for duty in duties:
        for _ in range(OPEN // NUMBER // RUNS_A_LOOK + 2):
            await duty.look()


async def delays_ms(runs: Runs, kafka: Kafka, kind: str) -> Sequence[float]:
    """End runs one after the other; from each settle to the record that Kafka has."""
    await finished(kafka, {f"{kind}-first": await runs.end(f"{kind}-first")})
    settled_at = {}
    for number in range(ENDED):
        name = f"{kind}-{number}"
        settled_at[name] = await runs.end(name)
        await asyncio.sleep(PAUSE_S)
    return await finished(kafka, settled_at)


async def finished(kafka: Kafka, settled_at: Mapping[str, float]) -> Sequence[float]:
    """Wait for the endings of these runs; how many ms after their settles they came."""
    ended_at: dict[str, float] = {}
    deadline = time.monotonic() + PATIENCE_S
    while len(ended_at) < len(settled_at) and time.monotonic() < deadline:
        await asyncio.sleep(1)
        ends = await end_offsets(kafka, TOPICS.events)
        async for record in read_topic(
            kafka, TOPICS.events, from_beginning=True, until=ends, follow=False
        ):
            event = orjson.loads(record.value or b"{}")
            if event.get("event") == "crawl_finished" and event["crawlid"] in settled_at:
                ended_at[event["crawlid"]] = record.timestamp_ms / 1000
    return [(ended_at[name] - settled_at[name]) * 1000 for name in settled_at]


async def measure(redis: Redis) -> Figures:
    """Measure delays alone, the rate of looks, and delays under that rate."""
    frontiers = await open_divided([redis], NUMBER)
    runs = Runs(frontiers)
    with tempfile.TemporaryDirectory(prefix="crawlstream-bench-") as folder:
        async with own_kafka(folder, frontier=NUMBER) as address:
            env = divided(environment(redis, address, folder), NUMBER)
            kafka = Kafka([address])
            with running(*REDIS_MONITOR, folder=folder, **{**env, **NO_GRACE}):
                alone = percentiles(await delays_ms(runs, kafka, "alone"))
            await runs.open([f"open-{n}" for n in range(OPEN)], priority=1)
            rate = await looks(frontiers)
            with running(*REDIS_MONITOR, folder=folder, **{**env, **NO_GRACE}):
                beside = percentiles(await delays_ms(runs, kafka, "beside"))
    return {**alone, **rate, **{f"{name}_with_10_000": ms for name, ms in beside.items()}}


if __name__ == "__main__":
    Benchmark(
        name="endings",
        about="Open runs looked at a second, 16 partitions; from a last page to crawl_finished.",
        measure=measure,
        lines={"p99_ms": Line(floor=500, goal=500, unit="ms")},
        repetitions=1,
    ).main()
