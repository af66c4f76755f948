"""Measure a REST process: requests fed per second, their delays, and the cost of waiting clients.

Requests are offered at a steady rate, whether the ones before are answered or not, and the time of
each runs from the moment it was due; so a pause of the service is felt by all that fall into it.
It also reports the highest rate of clients that wait for their answers, and the CPU time of the
process while two hundred clients wait for replies that never come.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass

import orjson
from lib.harness import Benchmark, Figures, Line
from lib.processes import SERVICE, cpu_s, environment, own_kafka, running
from redis.asyncio import Redis

from crawlstream_cli.local.ports import free_block

RATE, SECONDS = 1_000, 8
CONNECTIONS, WAITING = 64, 200
WAITED_S = 5.0


@dataclass(slots=True)
class Connection:
    """Client that keeps its connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def feed(self, number: int, **more: object) -> int:
        """Feed one request; the status of the answer."""
        url = f"http://host{number % 1000}.example/articles/{number:08d}"
        body = orjson.dumps({"url": url, "appid": "bench", "crawlid": "rest", **more})
        self.writer.write(
            b"POST /feed HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        await self.reader.readexactly(int(length))
        return int(head[9:12])


async def connect(port: int, count: int) -> Sequence[Connection]:
    """Connect ``count`` clients."""
    return [Connection(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(count)]


async def at_rate(clients: Sequence[Connection]) -> Sequence[float]:
    """Offer requests at a steady rate; seconds from the moment that each was due."""
    free: asyncio.Queue[Connection] = asyncio.Queue()
    for client in clients:
        free.put_nowait(client)
    took: list[float] = []

    async def one(client: Connection, number: int, due: float) -> None:
        assert await client.feed(number) == 200
        took.append(time.perf_counter() - due)
        free.put_nowait(client)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(RATE * SECONDS):
            due = began + number / RATE
            if (ahead := due - time.perf_counter()) > 0:
                await asyncio.sleep(ahead)
            group.create_task(one(await free.get(), number, due))
    return took


async def at_most(clients: Sequence[Connection]) -> float:
    """Return the requests per second when each client feeds again as soon as it is answered."""
    until, fed = time.perf_counter() + SECONDS, 0

    async def feed_on(client: Connection) -> None:
        nonlocal fed
        while time.perf_counter() < until:
            assert await client.feed(fed) == 200
            fed += 1

    await asyncio.gather(*map(feed_on, clients))
    return fed / SECONDS


async def waiting_cpu(clients: Sequence[Connection], pid: int) -> float:
    """Share of a core that the process takes while every client waits for its reply."""
    waits = [
        asyncio.create_task(client.feed(number, uuid=f"wait-{number}"))
        for number, client in enumerate(clients)
    ]
    # Until all of them are fed.
    await asyncio.sleep(2)
    share = await idle_cpu(pid)
    await asyncio.gather(*waits)
    return share


async def idle_cpu(pid: int) -> float:
    """Share of a core that the process takes by itself."""
    before = cpu_s(pid)
    await asyncio.sleep(WAITED_S)
    return (cpu_s(pid) - before) / WAITED_S


async def _until_ready(port: int) -> None:
    while True:
        try:
            (client,) = await connect(port, 1)
            if await client.feed(0) == 200:
                return
        except OSError:
            pass
        await asyncio.sleep(0.2)


async def measure(redis: Redis) -> Figures:
    """Measure one service with a Kafka without consumers, so that no request gets a reply."""
    port = free_block(1)
    with tempfile.TemporaryDirectory(prefix="crawlstream-bench-") as folder:
        async with own_kafka(folder, partitions=4) as kafka:
            env = {
                **environment(redis, kafka, folder),
                "CRAWLSTREAM_REST_PORT": str(port),
                "CRAWLSTREAM_REST_RATE": "0",
                "WAIT_FOR_RESPONSE_TIME": "10",
            }
            with running(*SERVICE, folder=folder, **env) as pid:
                await _until_ready(port)
                return await figures_of(port, pid)


async def figures_of(port: int, pid: int) -> Figures:
    """Measure a running service."""
    clients = await connect(port, CONNECTIONS)
    await at_most(clients[:8])
    idle = await idle_cpu(pid)
    spent_s, most = cpu_s(pid), await at_most(clients)
    cpu_us = (cpu_s(pid) - spent_s) * 1e6 / (most * SECONDS)
    took = await at_rate(clients)
    waiting = await waiting_cpu(await connect(port, WAITING), pid)
    return {
        "p50_ms": statistics.median(took) * 1000,
        "p99_ms": statistics.quantiles(took, n=100)[98] * 1000,
        "most_per_s": most,
        "cpu_us_a_request": cpu_us,
        "waiting_cpu_percent": 100 * waiting,
        "idle_cpu_percent": 100 * idle,
    }


if __name__ == "__main__":
    Benchmark(
        name="rest",
        about="Requests fed over HTTP at 1 000 a second by one process; and the cost of waiting.",
        measure=measure,
        lines={
            "p99_ms": Line(floor=250, goal=50, unit="ms"),
            "most_per_s": Line(floor=500, goal=1_000, unit="1/s", more=True),
            "waiting_cpu_percent": Line(floor=10, goal=3, unit="%"),
        },
        repetitions=1,
    ).main()
