"""Leases and settles a second by one Redis, batch 100, at a thousand and at a million domains.

The cost of a turn depends on domains, so two numbers are varied: domains, and entries that a turn
finds in each. *Deep* domains have more than a turn takes, *shallow* ones have two.
The drop from the small frontier to the large one is taken at the same depth, in turns of one run.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import count
from statistics import median

from lib.harness import Benchmark, Cost, Figures, Line, measured, own_redis
from lib.load import SPACED, WIDE_OPEN, fill, lease_and_settle, open_frontier
from redis.asyncio import Redis

from crawlstream.model.crawl import Lease
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream_frontier.worker.session import WorkerSession

SMALL, LARGE = 1_000, 1_000_000
SHALLOW = 2
DEEP = {SMALL: 200, LARGE: 10}
"""Entries a domain, by domains: no turn of a run finds fewer than it may take."""
BLOCK, ROUNDS = 2_000, 40
"""Entries leased from one frontier before the other one's turn, and how often each has its turn."""
WORKERS = 2
"""Two clients at once, so that Redis never waits for one."""


@dataclass(slots=True)
class Load:
    """A frontier that is leased from in blocks, and filled again when it has run empty."""

    redis: Redis
    domains: int
    each: int
    filler: WorkerSession
    lease: Lease
    left: int = 0
    names = count()

    @classmethod
    async def of(
        cls, redis: Redis, domains: int, each: int, rule: ThrottleRule = WIDE_OPEN
    ) -> Load:
        """Empty Redis, and fill a frontier of ``domains`` with ``each`` entries per domain."""
        load = cls(redis, domains, each, *await open_frontier(redis, rule))
        await load.fill()
        return load

    async def fill(self) -> None:
        """Every domain has its entries again."""
        await fill(self.filler, self.lease, self.domains, self.each)
        self.left = self.domains * self.each

    async def block(self) -> Cost:
        """Return Redis' cost to lease and settle the next block."""
        if self.left < BLOCK:
            await self.fill()
        share = BLOCK // WORKERS
        async with measured(self.redis) as cost:
            workers = (f"w{next(self.names)}" for _ in range(WORKERS))
            await asyncio.gather(*(lease_and_settle(self.redis, w, share) for w in workers))
        self.left -= BLOCK
        return cost


def us(costs: list[Cost]) -> float:
    """CPU of Redis an entry."""
    return median(cost.cpu_us for cost in costs) / BLOCK


async def in_turns(small: Load, large: Load) -> tuple[list[Cost], list[Cost]]:
    """Costs of the blocks of both, which take turns: a slow minute is one for both."""
    pairs = [(await small.block(), await large.block()) for _ in range(ROUNDS)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


async def measure(redis: Redis) -> Figures:
    """Measure both sizes at both depths, each size in its own Redis; also evenly spaced domains."""
    async with own_redis() as other:
        deep = await in_turns(
            await Load.of(redis, SMALL, DEEP[SMALL]), await Load.of(other, LARGE, DEEP[LARGE])
        )
        shallow = await in_turns(
            await Load.of(redis, SMALL, SHALLOW), await Load.of(other, LARGE, SHALLOW)
        )
    spaced = await Load.of(redis, SMALL, DEEP[SMALL], SPACED)
    few, many = us(shallow[0]), us(shallow[1])
    few_deep, many_deep = us(deep[0]), us(deep[1])
    return {
        "per_s_at_1e3": 1e6 / few_deep,
        "per_s_at_1e6": 1e6 / many,
        "per_s_at_1e3_shallow": 1e6 / few,
        "per_s_at_1e6_deep": 1e6 / many_deep,
        "drop": drop(*shallow),
        "drop_deep": drop(*deep),
        "drop_deep_to_shallow": 1 - few_deep / many,
        "per_s_at_1e3_spaced": 1e6 / us([await spaced.block() for _ in range(ROUNDS)]),
        "wall_per_s_at_1e3": BLOCK / median(cost.wall_s for cost in deep[0]),
        "wall_per_s_at_1e6": BLOCK / median(cost.wall_s for cost in shallow[1]),
    }


def drop(small: list[Cost], large: list[Cost]) -> float:
    """Return which part of its speed the frontier loses by being large."""
    return 1 - median(s.cpu_us / m.cpu_us for s, m in zip(small, large, strict=True))


if __name__ == "__main__":
    Benchmark(
        name="frontier",
        about="Leases and settles (no children) a second of one Redis' CPU, batch 100.",
        measure=measure,
        lines={
            "per_s_at_1e3": Line(floor=80_000, goal=120_000, unit="1/s", more=True),
            "per_s_at_1e6": Line(floor=50_000, goal=100_000, unit="1/s", more=True),
            "drop": Line(floor=0.45, goal=0.20, unit=""),
            "drop_deep": Line(floor=0.45, goal=0.20, unit=""),
        },
        repetitions=1,
    ).main()
