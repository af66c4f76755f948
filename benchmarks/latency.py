"""From a feed appended to Kafka to the request at the site, on a cluster that has nothing to do.

robots.txt is off and the rule wide open, so that nothing but the cluster's own hops is measured.
Every seed is of a host of its own: no connection and no state helps the next one.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

import orjson
from lib.harness import Benchmark, Figures, Line
from lib.load import KEYS, WIDE_OPEN
from lib.processes import CRAWLER, MONITOR, TOPICS, environment, own_kafka, running
from redis.asyncio import Redis

from crawlstream.bus.connect import Kafka
from crawlstream.bus.records import Out
from crawlstream.bus.sink import KafkaSink
from crawlstream.model.throttle_table import ThrottleTable
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.layout import create_frontier

SEEDS, WARM_UP = 200, 10
PAUSE_S = 0.15
PATIENCE_S = 60.0
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nok"


def request(url: str, crawlid: str, **more: int) -> Out:
    """A crawl request as it is fed."""
    fields = {"url": url, "appid": "bench", "crawlid": crawlid, **more}
    return Out(TOPICS.incoming, orjson.dumps(fields))


class Site:
    """Answers everything, and knows when each path was asked for."""

    def __init__(self) -> None:
        self.port = 0
        self._arrived: dict[str, asyncio.Future[float]] = {}

    async def delays_ms(self, sink: KafkaSink, count: int, **more: int) -> Sequence[float]:
        """Feed seeds one by one, each of a host and crawl of its own: from feed to request."""
        took_ms = []
        for number in range(count):
            took_ms.append(await self._delay_ms(sink, number, **more))
            await asyncio.sleep(PAUSE_S)
        return took_ms

    async def _delay_ms(self, sink: KafkaSink, number: int, **more: int) -> float:
        arrived: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._arrived[f"/{number}"] = arrived
        url = f"http://127.2.{number // 250}.{1 + number % 250}:{self.port}/{number}"
        began = time.perf_counter()
        await sink.send([request(url, f"one-{number}", **more)])
        return (await asyncio.wait_for(arrived, PATIENCE_S) - began) * 1000

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until the client closes it."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                at = time.perf_counter()
                expected = self._arrived.get(head.split(b" ", 2)[1].decode())
                if expected is not None and not expected.done():
                    expected.set_result(at)
                writer.write(_ANSWER)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


class Answering(Protocol):
    """A site that answers connections, and receives its address."""

    port: int

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until the client closes it."""


S = TypeVar("S", bound=Answering)


@asynccontextmanager
async def serving(site: S) -> AsyncIterator[S]:
    """A site on all of 127.0.0.0/8, for the length of the block."""
    server = await asyncio.start_server(site.answer, "0.0.0.0", 0)  # noqa: S104  all of 127/8
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()


def percentiles(took_ms: Sequence[float]) -> Figures:
    """Return the reported figures of delays."""
    of_100 = statistics.quantiles(took_ms, n=100)
    return {"p50_ms": of_100[49], "p99_ms": of_100[98], "slowest_ms": max(took_ms)}


async def measure(redis: Redis) -> Figures:
    """Measure a series of seeds, one after the other."""
    frontier = Frontier(redis, KEYS)
    await create_frontier(frontier.scripts)
    await frontier.rules.copy(ThrottleTable(default=WIDE_OPEN, czxid=1, mzxid=1))
    with tempfile.TemporaryDirectory(prefix="crawlstream-bench-") as folder:
        async with own_kafka(folder, partitions=4) as kafka:
            env = environment(redis, kafka, folder)
            with running(*MONITOR, folder=folder, **env), running(*CRAWLER, folder=folder, **env):
                async with serving(Site()) as site, KafkaSink(Kafka([kafka])) as sink:
                    took_ms = await site.delays_ms(sink, WARM_UP + SEEDS)
    return percentiles(took_ms[WARM_UP:])


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
