"""From a feed appended to Kafka to the request at the site, on a cluster that has nothing to do.

robots.txt is off and the rule wide open, so that nothing but the cluster's own hops is measured.
Every seed is of a host of its own: no connection and no state helps the next one.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time

import orjson
from calls import own_kafka, running
from harness import Benchmark, Figures, Line
from ingest import MONITOR, TOPICS
from load import KEYS, WIDE_OPEN
from redis.asyncio import Redis

from crawlstream.bus.records import Out
from crawlstream.bus.sink import KafkaSink
from crawlstream.bus.topics import TopicShape, ensure_topics
from crawlstream.frontier.frontier import Frontier
from crawlstream.model.throttle import ThrottleTable

SEEDS, WARM_UP = 200, 10
PAUSE_S = 0.15
PATIENCE_S = 60.0
CRAWLER = (sys.executable, "-P", "-m", "crawling", "link")
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nok"


class Site:
    """Answers everything, and knows when each path was asked for."""

    def __init__(self) -> None:
        self.arrived: dict[str, asyncio.Future[float]] = {}

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until the client closes it."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                at = time.perf_counter()
                expected = self.arrived.get(head.split(b" ", 2)[1].decode())
                if expected is not None and not expected.done():
                    expected.set_result(at)
                writer.write(_ANSWER)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


async def _seed(site: Site, sink: KafkaSink, port: int, number: int) -> float:
    """Milliseconds from one feed to its request."""
    arrived: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    site.arrived[f"/{number}"] = arrived
    url = f"http://127.2.{number // 250}.{1 + number % 250}:{port}/{number}"
    request = {"url": url, "appid": "bench", "crawlid": f"latency-{number}"}
    began = time.perf_counter()
    await sink.send([Out(TOPICS.incoming, orjson.dumps(request))])
    return (await asyncio.wait_for(arrived, PATIENCE_S) - began) * 1000


async def _seeds(kafka: str) -> list[float]:
    site, sink = Site(), KafkaSink([kafka])
    server = await asyncio.start_server(site.answer, "0.0.0.0", 0)  # noqa: S104  all of 127/8
    port = server.sockets[0].getsockname()[1]
    await sink.start()
    took_ms = []
    for number in range(WARM_UP + SEEDS):
        took_ms.append(await _seed(site, sink, port, number))
        await asyncio.sleep(PAUSE_S)
    await sink.stop()
    server.close()
    return took_ms[WARM_UP:]


async def measure(redis: Redis) -> Figures:
    """One row of seeds, one after the other."""
    await Frontier(redis, KEYS).copy_rules(ThrottleTable(default=WIDE_OPEN, czxid=1, mzxid=1))
    with tempfile.TemporaryDirectory(prefix="crawlstream-bench-") as folder:
        async with own_kafka(folder) as kafka:
            await ensure_topics([kafka], TOPICS, TopicShape(partitions=4))
            env = {
                "REDIS_HOST": "127.0.0.1",
                "REDIS_PORT": str(redis.connection_pool.connection_kwargs["port"]),
                "KAFKA_HOSTS": kafka,
                "KAFKA_TOPIC_PREFIX": TOPICS.prefix,
                "CRAWLSTREAM_HOME": folder,
                "CRAWLSTREAM_ALLOW_NETWORKS": "127.0.0.0/8",
                "ROBOTSTXT_OBEY": "false",
                "LOG_LEVEL": "WARNING",
            }
            with running(*MONITOR, folder=folder, **env), running(*CRAWLER, folder=folder, **env):
                took_ms = await _seeds(kafka)
    percentiles = statistics.quantiles(took_ms, n=100)
    return {"p50_ms": percentiles[49], "p99_ms": percentiles[98], "slowest_ms": max(took_ms)}


if __name__ == "__main__":
    Benchmark(
        name="latency",
        about="From a feed appended to Kafka to the request at the site, idle cluster, robots off.",
        measure=measure,
        lines={
            "p50_ms": Line(floor=100, goal=20, unit="ms"),
            "p99_ms": Line(floor=500, goal=60, unit="ms"),
        },
        repetitions=2,
    ).main()
