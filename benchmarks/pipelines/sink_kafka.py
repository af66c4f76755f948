"""Pages from Kafka onto another topic in transactions, a second of one pipeline's CPU."""

from __future__ import annotations

from lib.harness import Benchmark, Figures, Line
from lib.sinks import records_per_s
from redis.asyncio import Redis


async def measure(redis: Redis) -> Figures:
    """Measure one topic."""
    return {"records_per_s": await records_per_s(redis, 'kind = "kafka", topic = "pages"')}


if __name__ == "__main__":
    Benchmark(
        name="sink-kafka",
        about="Pages of 20 KB from Kafka onto a topic, in transactions, a second of the CPU.",
        measure=measure,
        lines={"records_per_s": Line(floor=1_500, goal=4_000, unit="1/s", more=True)},
    ).main()
