"""Measure an empty poll at 100 000 cooling domains, and the time until the next one."""

from __future__ import annotations

from lib.harness import Benchmark, Figures, Line, measured
from lib.load import KEYS, SPIDER, done, fill, open_frontier
from redis.asyncio import Redis

from crawlstream.model.throttle_table import ThrottleRule
from crawlstream_frontier.frontier import Frontier

DOMAINS = 100_000
POLLS = 500
RARELY = ThrottleRule(hits=1, window_s=86_400)


async def measure(redis: Redis) -> Figures:
    """Cool every domain by one request, then ask for more."""
    await fill(*await open_frontier(redis, RARELY), DOMAINS, 2)
    worker = Frontier(redis, KEYS).session("idle", SPIDER)
    answer = await worker.exchange(want=200)
    while answer.leases:
        settles = [done(lease) for lease in answer.leases]
        answer = await worker.exchange(settles=settles, want=200)
    async with measured(redis) as polls:
        for _ in range(POLLS):
            answer = await worker.exchange(want=100)
    return {
        "commands_a_poll": polls.calls / POLLS,
        "us_a_poll": polls.cpu_us / POLLS,
        "sleeps_s": (answer.next_due_ms or 0) / 1000,
    }


if __name__ == "__main__":
    Benchmark(
        name="idle",
        about="Redis commands of a fruitless poll at 100 000 cooling domains.",
        measure=measure,
        lines={"commands_a_poll": Line(floor=2, goal=1, unit="")},
        repetitions=1,
    ).main()
