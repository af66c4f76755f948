"""Pages from Kafka into tables, a second of one pipeline's CPU."""

from __future__ import annotations

from lib.harness import Benchmark, Figures, Line
from lib.sinks import records_per_s
from redis.asyncio import Redis

from crawlstream_chaos.stores.postgres import postgres

_SQLITE = 'kind = "sql", url = "sqlite:///{folder}/pages.db", body = "bytes"'


async def measure(redis: Redis) -> Figures:
    """PostgreSQL without bodies, SQLite with."""
    with postgres() as server:
        url = server.make_database("bench")
        figures = {"postgresql_per_s": await records_per_s(redis, f'kind = "sql", url = "{url}"')}
    return {**figures, "sqlite_per_s": await records_per_s(redis, _SQLITE)}


if __name__ == "__main__":
    Benchmark(
        name="sink-sql",
        about="Pages of 20 KB from Kafka into PostgreSQL without bodies, and into SQLite with,"
        " a second of one pipeline's CPU.",
        measure=measure,
        lines={
            "postgresql_per_s": Line(floor=2_500, goal=6_000, unit="1/s", more=True),
            "sqlite_per_s": Line(floor=1_500, goal=3_500, unit="1/s", more=True),
        },
    ).main()
