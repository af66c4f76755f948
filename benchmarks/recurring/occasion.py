"""Measure the cost of recognising each seed of a firing: one bit in Redis per seed.

The same seeds are taken in with and without an occasion, in turns, so that a slow minute is slow
for both. Ten thousand seeds are of one firing, as those of a schedule or of a client's feed.
"""

from __future__ import annotations

import time
from statistics import median

from lib.harness import Benchmark, Figures, Line, measured
from lib.load import CRAWL, KEYS, URL_SIZE, WIDE_OPEN, domain_name
from redis.asyncio import Redis

from crawlstream.model.crawl import Entry, Profile
from crawlstream.model.effects import IntakeBatch, Loss, Seed
from crawlstream.model.recurring.schedule import Occasion
from crawlstream.model.throttle_table import ThrottleTable
from crawlstream.wire.stored import encode_entry
from crawlstream_frontier.frontier import Frontier

SEEDS, DOMAINS, A_CALL = 20_000, 1_000, 200
A_FIRING, PAIRS = 10_000, 9


def _seed(number: int, *, occasion: Occasion | None) -> Seed:
    domain = domain_name(number % DOMAINS)
    url = f"http://{domain}/articles/2026/11/{number:08d}".ljust(URL_SIZE, "x")
    return Seed(
        offset=number,
        timestamp_ms=0,
        crawl=CRAWL,
        domain=domain,
        priority=1,
        fingerprint=str(number),
        entry=encode_entry(Entry(url=url)),
        profile=Profile(),
        occasion=occasion,
    )


async def _cost_us(redis: Redis, *, with_occasions: bool) -> tuple[float, float]:
    """Redis' CPU a seed, and its time within the script."""
    await redis.flushall()
    frontier, at = Frontier(redis, KEYS), int(time.time())
    await frontier.positions.restore(Loss(topic_id="bench", kafka_partition=0, offset=0))
    await frontier.rules.copy(ThrottleTable(default=WIDE_OPEN, czxid=1, mzxid=1))
    batches = []
    for start in range(0, SEEDS, A_CALL):
        seeds = [
            _seed(
                number,
                occasion=Occasion("bench", at + number // A_FIRING, number % A_FIRING)
                if with_occasions
                else None,
            )
            for number in range(start, start + A_CALL)
        ]
        batches.append(
            IntakeBatch(
                topic_id="bench", kafka_partition=0, start=start, next=start + A_CALL, records=seeds
            )
        )
    async with measured(redis) as cost:
        for batch in batches:
            await frontier.intake.apply(batch)
    return cost.cpu_us / SEEDS, cost.script_us / SEEDS


async def measure(redis: Redis) -> Figures:
    """Short turns in pairs: a slow minute is slow for both of a pair; medians over the pairs."""
    pairs = [
        (
            await _cost_us(redis, with_occasions=False),
            await _cost_us(redis, with_occasions=True),
        )
        for _ in range(PAIRS)
    ]
    return {
        "rate_with_per_without": median(plain[0] / known[0] for plain, known in pairs),
        "us_a_seed_without": median(plain[0] for plain, _ in pairs),
        "us_a_seed_with": median(known[0] for _, known in pairs),
        "script_us_without": median(plain[1] for plain, _ in pairs),
        "script_us_with": median(known[1] for _, known in pairs),
    }


if __name__ == "__main__":
    Benchmark(
        name="occasion",
        about="Seeds taken in a second of Redis' CPU, with an occasion / without.",
        measure=measure,
        lines={"rate_with_per_without": Line(floor=0.90, goal=0.97, unit="", more=True)},
        repetitions=3,
    ).main()
