"""Counters, a list of domains and a stop where much waits; and the longest call that each takes.

Redis' cost is the CPU time of its main thread: where a machine is shared, the wall of a single
call is for the most part the time of others.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable
from typing import Any

from lib.harness import Benchmark, Figures, Line, measured
from lib.load import CRAWL, KEYS, fill, open_frontier
from redis.asyncio import Redis

from crawlstream.model.effects import Command, IntakeBatch
from crawlstream_frontier.frontier import Frontier

QUEUED, DOMAINS = 1_000_000, 100_000
STOPPED, STOPPED_DOMAINS = 1_000_000, 10_000
"""The crawl that is stopped, as in the prototype that the goals were taken from; the stop of the
first one, with its ten times as many domains, is measured as well."""
ASKED = 20


class Metered(Redis):
    """A client that notes what each script costs Redis, in ms of its main thread's CPU.

    Two readings are needed for it, which cost some 0.05 ms and are counted with the script.
    """

    def __init__(self, redis: Redis) -> None:
        super().__init__(connection_pool=redis.connection_pool)
        self.each_ms: list[float] = []

    async def evalsha(self, *args: Any) -> Any:
        """Run a script."""
        before = await self._cpu_ms()
        answer = await super().evalsha(*args)
        self.each_ms.append(await self._cpu_ms() - before)
        return answer

    async def of(self, work: Awaitable[object]) -> tuple[float, float]:
        """Return the time of all scripts of some work, and of the longest."""
        self.each_ms.clear()
        await work
        return sum(self.each_ms), max(self.each_ms)

    async def _cpu_ms(self) -> float:
        cpu: dict[str, float] = await self.info("cpu")
        return 1000 * (cpu["used_cpu_user_main_thread"] + cpu["used_cpu_sys_main_thread"])


async def ask(frontier: Frontier) -> None:
    """Ask for a crawl's counters, again and again."""
    for _ in range(ASKED):
        await frontier.queries.crawl_state(CRAWL, with_domains=False)


async def stop_and_sweep(frontier: Frontier) -> None:
    """Stop the crawl, and take care until nothing of it is left."""
    stop = Command(offset=1, timestamp_ms=1, name="stop", request=b"{}", crawl=CRAWL)
    batch = IntakeBatch(topic_id="bench", kafka_partition=0, start=1, next=2, records=[stop])
    await frontier.intake.apply(batch)
    while (await frontier.maintenance.tend()).more:
        pass


async def measure(redis: Redis) -> Figures:
    """A million entries over a hundred thousand domains; counters never look at entries.

    BENCH_QUEUED sets another number of entries, which only ``fill`` feels.
    """
    queued = int(os.environ.get("BENCH_QUEUED", QUEUED))
    metered = Metered(redis)
    watched = Frontier(metered, KEYS)
    frontier = Frontier(redis, KEYS)
    await fill(*await open_frontier(redis), DOMAINS, queued // DOMAINS)
    async with measured(redis) as counters:
        await ask(frontier)
    _, counters_longest = await metered.of(ask(watched))
    async with measured(redis) as listing:
        await frontier.queries.crawl_state(CRAWL)
    _, listing_longest = await metered.of(watched.queries.crawl_state(CRAWL))
    wide, wide_longest = await metered.of(stop_and_sweep(watched))
    await fill(*await open_frontier(redis), STOPPED_DOMAINS, STOPPED // STOPPED_DOMAINS)
    stop, stop_longest = await metered.of(stop_and_sweep(watched))
    return {
        "counters_ms": counters.wall_s / ASKED * 1000,
        "counters_longest_ms": counters_longest,
        "domains_s": listing.wall_s,
        "domains_longest_ms": listing_longest,
        "stop_ms": stop,
        "stop_longest_ms": stop_longest,
        "counters_cpu_ms": counters.cpu_us / ASKED / 1000,
        "domains_cpu_s": listing.cpu_us / 1e6,
        "stop_of_100k_domains_ms": wide,
        "stop_of_100k_domains_longest_ms": wide_longest,
    }


if __name__ == "__main__":
    longest = Line(floor=5, goal=2, unit="ms CPU")
    Benchmark(
        name="info",
        about="Counters, 100 000 domains listed, 1 M entries stopped; the longest call of each.",
        measure=measure,
        lines={
            "counters_ms": Line(floor=5, goal=1, unit="ms"),
            "counters_longest_ms": longest,
            "domains_s": Line(floor=1, goal=0.3, unit="s"),
            "domains_longest_ms": longest,
            "stop_ms": Line(floor=300, goal=100, unit="ms CPU"),
            "stop_longest_ms": longest,
        },
        repetitions=1,
    ).main()
