"""How late seeds are in Kafka when a thousand schedules are due at the same moment.

Two redis-monitors serve them, as in a cluster that may lose one. The time of a seed is Kafka's own,
of the moment at which it has the record.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from datetime import UTC, datetime

import orjson
from lib.harness import Benchmark, Figures, Line
from lib.load import KEYS, WIDE_OPEN
from lib.processes import MONITOR, REDIS_MONITOR, TOPICS, environment, own_kafka, running
from redis.asyncio import Redis

from crawlstream.bus.connect import Kafka
from crawlstream.bus.records import Out
from crawlstream.bus.sink import KafkaSink
from crawlstream.bus.tail import end_offsets, read_topic
from crawlstream.model.throttle_table import ThrottleTable
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.layout import create_frontier

SCHEDULES, SEEDS = 1_000, 3
AHEAD_S = 25
"""From the first request to the moment: all must be set before."""
PATIENCE_S = 60.0


def _request(number: int, cron: str) -> Out:
    name = f"s{number}"
    told = {
        "uuid": name,
        "appid": "bench",
        "schedule": name,
        "cron": cron,
        "crawl": {"crawlid": name},
        "seeds": [f"http://127.0.0.9/{number}/{seed}" for seed in range(SEEDS)],
    }
    return Out(TOPICS.incoming, orjson.dumps(told), f"bench:{name}".encode())


async def _seed_times_ms(kafka: Kafka) -> list[int]:
    """Return when Kafka had each seed, first feeds only."""
    ends = await end_offsets(kafka, TOPICS.incoming)
    times: dict[str, int] = {}
    async for record in read_topic(
        kafka, TOPICS.incoming, from_beginning=True, until=ends, follow=False
    ):
        if record.value is not None and record.value.startswith(b'{"url"'):
            times.setdefault(orjson.loads(record.value)["url"], record.timestamp_ms)
    return list(times.values())


async def _fed(kafka: Kafka) -> list[int]:
    deadline = time.monotonic() + PATIENCE_S
    while len(times := await _seed_times_ms(kafka)) < SCHEDULES * SEEDS:
        if time.monotonic() > deadline:
            raise SystemExit(f"only {len(times)} seeds of {SCHEDULES * SEEDS} were fed")
        await asyncio.sleep(1)
    return times


async def measure(redis: Redis) -> Figures:
    """Measure one moment at which all are due."""
    frontier = Frontier(redis, KEYS)
    await create_frontier(frontier.scripts)
    await frontier.rules.copy(ThrottleTable(default=WIDE_OPEN, czxid=1, mzxid=1))
    with tempfile.TemporaryDirectory(prefix="crawlstream-bench-") as folder:
        async with own_kafka(folder, partitions=4) as address:
            env = {**environment(redis, address, folder), "CRAWLSTREAM_SCHEDULE_MIN_S": "1"}
            monitors = [running(*argv, folder=folder, **env) for argv in (MONITOR, REDIS_MONITOR)]
            second = running(*REDIS_MONITOR, folder=folder, **env)
            with monitors[0], monitors[1], second:
                at = int(time.time()) + AHEAD_S
                moment = datetime.fromtimestamp(at, UTC)
                cron = f"{moment:%S %M %H %d %m} *"
                async with KafkaSink(Kafka([address])) as sink:
                    await sink.send([_request(number, cron) for number in range(SCHEDULES)])
                while len(await frontier.schedules.all()) < SCHEDULES:
                    await asyncio.sleep(0.5)
                if time.time() >= at:
                    raise SystemExit("the schedules were not set in time: the machine is too busy")
                await asyncio.sleep(at - time.time())
                late_s = [one / 1000 - at for one in await _fed(Kafka([address]))]
    of_100 = statistics.quantiles(late_s, n=100)
    return {"p50_s": of_100[49], "p99_s": of_100[98], "slowest_s": max(late_s)}


if __name__ == "__main__":
    Benchmark(
        name="schedule-late",
        about="From the moment at which 1,000 schedules are due to their seeds in Kafka.",
        measure=measure,
        lines={"p99_s": Line(floor=3, goal=1.5, unit="s")},
        repetitions=3,
    ).main()
