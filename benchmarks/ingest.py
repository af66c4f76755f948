"""Requests that one kafka-monitor makes leasable in a second: from a full topic into Redis.

The topic is filled before; measured is the time between the monitor's first call and its last.
Requests are small ones, of four crawls over a thousand domains, as a bulk feed brings them.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time

import orjson
import psutil
from calls import own_kafka, running
from harness import Benchmark, Figures, Line, measured
from load import KEYS, domain_name
from redis.asyncio import Redis

from crawlstream.bus.records import Out
from crawlstream.bus.sink import KafkaSink
from crawlstream.bus.topics import TopicShape, ensure_topics
from crawlstream.keys import Topics

REQUESTS, DOMAINS, CRAWLS = 100_000, 1_000, 4
A_LIST = 5_000
TOPICS = Topics("ingest")
MONITOR = (sys.executable, "-P", "-m", "kafka_monitor", "run")


def _request(number: int) -> bytes:
    host = domain_name(number % DOMAINS)
    url = f"http://{host}/articles/2026/11/{number:08d}".ljust(77, "x")
    return orjson.dumps({"url": url, "appid": "bench", "crawlid": f"bulk-{number % CRAWLS}"})


def _key(number: int) -> bytes:
    return b"bench:bulk-%d" % (number % CRAWLS)


async def fill(hosts: list[str]) -> None:
    """Feed everything as our own tools do: records of a crawl have its key."""
    await ensure_topics(hosts, TOPICS, TopicShape(partitions=4))
    sink = KafkaSink(hosts)
    await sink.start()
    for start in range(0, REQUESTS, A_LIST):
        numbers = range(start, start + A_LIST)
        await sink.send([Out(TOPICS.incoming, _request(n), _key(n)) for n in numbers])
    await sink.stop()


def _monitor() -> psutil.Process:
    for process in psutil.Process().children():
        if process.cmdline() == list(MONITOR):
            return process
    raise RuntimeError("the kafka-monitor does not run")


def _cpu_us(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system) * 1e6


async def _leasable(redis: Redis) -> int:
    return int(await redis.hget(KEYS.tag + "totals", "queued") or 0)


async def measure(redis: Redis) -> Figures:
    """One run over a topic that is full."""
    with tempfile.TemporaryDirectory(prefix="crawlstream-bench-") as folder:
        async with own_kafka(folder) as kafka:
            await fill([kafka])
            env = {
                "REDIS_HOST": "127.0.0.1",
                "REDIS_PORT": str(redis.connection_pool.connection_kwargs["port"]),
                "KAFKA_HOSTS": kafka,
                "KAFKA_TOPIC_PREFIX": TOPICS.prefix,
                "LOG_LEVEL": "WARNING",
            }
            with running(*MONITOR, folder=folder, **env):
                while not (first := await _leasable(redis)):
                    await asyncio.sleep(0.005)
                monitor, began = _monitor(), time.perf_counter()
                cpu_us = _cpu_us(monitor)
                async with measured(redis) as cost:
                    while await _leasable(redis) < REQUESTS:
                        await asyncio.sleep(0.02)
                took_s = time.perf_counter() - began
                cpu_us = _cpu_us(monitor) - cpu_us
    requests = REQUESTS - first
    return {
        "requests_per_s": requests / took_s,
        "monitor_cpu_us": cpu_us / requests,
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
