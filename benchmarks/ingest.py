"""Requests that one kafka-monitor makes leasable in a second: from a full topic into Redis.

The topic is filled before; measured is the time between the monitor's first call and its last.
Requests are small ones, of four crawls over a thousand domains, as a bulk feed brings them.
"""

from __future__ import annotations

import asyncio
import tempfile
import time

import orjson
from lib.harness import Benchmark, Figures, Line, measured
from lib.load import KEYS, domain_name
from lib.processes import MONITOR, TOPICS, cpu_s, environment, own_kafka, running
from redis.asyncio import Redis

from crawlstream.bus.connect import Kafka
from crawlstream.bus.records import Out
from crawlstream.bus.sink import KafkaSink

REQUESTS, DOMAINS, CRAWLS = 100_000, 1_000, 4
A_LIST = 5_000


def _request(number: int) -> bytes:
    host = domain_name(number % DOMAINS)
    url = f"http://{host}/articles/2026/11/{number:08d}".ljust(77, "x")
    return orjson.dumps({"url": url, "appid": "bench", "crawlid": f"bulk-{number % CRAWLS}"})


def _key(number: int) -> bytes:
    return b"bench:bulk-%d" % (number % CRAWLS)


async def fill(hosts: list[str]) -> None:
    """Feed everything as the project's tools do: records of a crawl have its key."""
    async with KafkaSink(Kafka(hosts)) as sink:
        for start in range(0, REQUESTS, A_LIST):
            numbers = range(start, start + A_LIST)
            await sink.send([Out(TOPICS.incoming, _request(n), _key(n)) for n in numbers])


async def _leasable(redis: Redis) -> int:
    return int(await redis.hget(KEYS.tag + "totals", "queued") or 0)


async def measure(redis: Redis) -> Figures:
    """Measure one run over a full topic."""
    with tempfile.TemporaryDirectory(prefix="crawlstream-bench-") as folder:
        async with own_kafka(folder, partitions=4) as kafka:
            await fill([kafka])
            env = environment(redis, kafka, folder)
            with running(*MONITOR, folder=folder, **env) as monitor:
                while not (first := await _leasable(redis)):
                    await asyncio.sleep(0.005)
                spent_s, began = cpu_s(monitor), time.perf_counter()
                async with measured(redis) as cost:
                    while await _leasable(redis) < REQUESTS:
                        await asyncio.sleep(0.02)
                took_s = time.perf_counter() - began
                spent_s = cpu_s(monitor) - spent_s
    requests = REQUESTS - first
    return {
        "requests_per_s": requests / took_s,
        "monitor_cpu_us": spent_s * 1e6 / requests,
        "redis_cpu_us": cost.cpu_us / requests,
        "script_ms_a_call": cost.script_us / cost.calls / 1000,
    }


if __name__ == "__main__":
    Benchmark(
        name="ingest",
        about="Requests from Kafka made leasable a second by one kafka-monitor.",
        measure=measure,
        lines={"requests_per_s": Line(floor=20_000, goal=80_000, unit="1/s", more=True)},
        repetitions=3,
    ).main()
