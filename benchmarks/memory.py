"""Bytes of Redis a queued URL of 77 characters, dedupe and all, by URLs a domain."""

from __future__ import annotations

from lib.harness import Benchmark, Figures, Line
from lib.load import fill, open_frontier
from redis.asyncio import Redis

QUEUED = 100_000
EACH = (5, 50, 500)


async def bytes_per_url(redis: Redis, each: int) -> float:
    """Return how much Redis grows by a URL, with ``each`` of them in a domain."""
    filler, lease = await open_frontier(redis)
    before = int((await redis.info("memory"))["used_memory"])
    await fill(filler, lease, QUEUED // each, each)
    return (int((await redis.info("memory"))["used_memory"]) - before) / QUEUED


async def measure(redis: Redis) -> Figures:
    """All sizes of domains."""
    return {f"bytes_at_{each}": await bytes_per_url(redis, each) for each in EACH}


if __name__ == "__main__":
    Benchmark(
        name="memory",
        about="Bytes of Redis a queued URL of 77 characters, by URLs a domain.",
        measure=measure,
        lines={
            "bytes_at_5": Line(floor=190, goal=150, unit="B"),
            "bytes_at_50": Line(floor=88, goal=78, unit="B"),
            "bytes_at_500": Line(floor=75, goal=68, unit="B"),
        },
        repetitions=1,
    ).main()
