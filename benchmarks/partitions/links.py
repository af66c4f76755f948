"""Links to another partition: how many a second one kafka-monitor applies, and how late they are.

Records are as crawlers write them: links of many pages, mostly one of each domain. The delay is
that of real processes: from the answer of a site to the request for the link that was on the page,
which lies in the other of two partitions; parsing, fetching and all other hops are in it.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from latency import percentiles, request, serving
from lib.divided import open_divided
from lib.harness import Benchmark, Figures, Line, measured
from lib.load import SPIDER, domain_name, links
from lib.processes import CRAWLER, MONITOR, TOPICS, cpu_s, divided, environment, own_kafka, running
from redis.asyncio import Redis

from crawlstream.bus.connect import Kafka
from crawlstream.bus.records import Out
from crawlstream.bus.sink import KafkaSink
from crawlstream.keys import Partitions
from crawlstream.model.partitions.messages import LinkOrigin
from crawlstream_frontier.codec.link_records import pack_links
from crawlstream_frontier.partitions.frontiers import Frontiers

NUMBER, READ_BY = 2, 1
"""Partitions, and the one whose links are counted."""
LINKS, A_RECORD, DOMAINS = 200_000, 100, 1_000
REPEATED = 0.5
"""Share of the links that others have sent before."""
PAGES, WARM_UP, PAUSE_S = 150, 10, 0.1
PATIENCE_S = 60.0


@dataclass(slots=True)
class Site:
    """Each of its pages on the first hosts leads to one on the second."""

    port: int = 0
    links: dict[str, str] = field(default_factory=dict)
    """URL by path."""
    answered_at: dict[str, float] = field(default_factory=dict)
    arrived: dict[str, asyncio.Future[float]] = field(default_factory=dict)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until the client closes it."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split(b" ", 2)[1].decode()
                if path in self.arrived and not self.arrived[path].done():
                    self.arrived[path].set_result(time.perf_counter())
                body = f'<a href="{self.links.get(path, "/")}">on</a>'.encode()
                head_of = (
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n"
                )
                writer.write(head_of % len(body) + body)
                self.answered_at[path] = time.perf_counter()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def delay_ms(self, sink: KafkaSink, number: int, hosts: Sequence[str]) -> float:
        """Feed a page of one host; from its answer to the request for its link to the other."""
        here, there = f"/from-{number}", f"/to-{number}"
        self.arrived[there] = asyncio.get_running_loop().create_future()
        self.links[here] = f"http://{hosts[1]}:{self.port}{there}"
        url = f"http://{hosts[0]}:{self.port}{here}"
        await sink.send([request(url, f"one-{number}", maxdepth=1)])
        arrived_at = await asyncio.wait_for(self.arrived[there], PATIENCE_S)
        return (arrived_at - self.answered_at[here]) * 1000


def hosts_of(partition: int) -> Iterator[str]:
    """Addresses that lie in a partition."""
    partitions = Partitions(number=NUMBER)
    addresses = (f"127.3.{n // 250}.{1 + n % 250}" for n in count())
    return (address for address in addresses if partitions.of(address) == partition)


async def delays_ms(kafka: str, folder: str, env: Mapping[str, str]) -> Sequence[float]:
    """Measure one page after the other."""
    monitor = running(*MONITOR, folder=folder, **env)
    with monitor, running(*CRAWLER, folder=folder, **env):
        async with serving(Site()) as site, KafkaSink(Kafka([kafka])) as sink:
            took_ms = []
            pairs = zip(*map(hosts_of, range(NUMBER)), range(WARM_UP + PAGES), strict=False)
            for *hosts, number in pairs:
                took_ms.append(await site.delay_ms(sink, number, hosts))
                await asyncio.sleep(PAUSE_S)
    return took_ms[WARM_UP:]


async def origin_of_a_page(kafka: str, frontiers: Frontiers) -> LinkOrigin:
    """Return the origin of the links of a page that was fed and is leased from now on."""
    host = next(hosts_of(1 - READ_BY))
    session = frontiers.session(1 - READ_BY, "holder", SPIDER)
    async with KafkaSink(Kafka([kafka])) as sink:
        await sink.send([request(f"http://{host}/", "bulk", maxdepth=1)])
    while not (leases := (await session.exchange(want=1)).leases):
        await asyncio.sleep(0.05)
    origin = session.origin(leases[0].token)
    assert origin is not None
    return origin


async def fill(kafka: str, origin: LinkOrigin) -> int:
    """Write the links of the partition; answers how many different ones."""
    own = [d for n in range(DOMAINS * NUMBER) if _lies_there(d := domain_name(n))]
    sent: list[Out] = []
    known: list[object] = []
    different = 0
    for _ in range(LINKS // A_RECORD):
        groups = []
        for domain in random.choices(own, k=A_RECORD):
            group = links(domain, 1)
            if known and random.random() < REPEATED:
                group = random.choice(known)  # type: ignore[assignment]
            else:
                different += 1
                known.append(group)
            groups.append(group)
        sent += [
            Out(TOPICS.links, value, partition=READ_BY) for value in pack_links(origin, groups)
        ]
    async with KafkaSink(Kafka([kafka])) as sink:
        for start in range(0, len(sent), 200):
            await sink.send(sent[start : start + 200])
    return different


def _lies_there(domain: str) -> bool:
    return Partitions(number=NUMBER).of(domain) == READ_BY


async def _queued(redis: Redis, frontiers: Frontiers) -> int:
    return int(await redis.hget(frontiers[READ_BY].scripts.keys.tag + "totals", "queued") or 0)


async def rate(
    redis: Redis, frontiers: Frontiers, kafka: str, folder: str, env: Mapping[str, str]
) -> Figures:
    """Measure one run over a full topic."""
    with running(*MONITOR, folder=folder, **env):
        origin = await origin_of_a_page(kafka, frontiers)
    different = await fill(kafka, origin)
    with running(*MONITOR, folder=folder, **env) as monitor:
        while not (first := await _queued(redis, frontiers)):
            await asyncio.sleep(0.005)
        spent_s, began = cpu_s(monitor), time.perf_counter()
        async with measured(redis) as cost:
            while await _queued(redis, frontiers) < different:
                await asyncio.sleep(0.02)
        took_s, spent_s = time.perf_counter() - began, cpu_s(monitor) - spent_s
    applied = LINKS * (different - first) / different
    return {
        "links_per_s": applied / took_s,
        "links_per_cpu_s": applied / max(spent_s, cost.cpu_us / 1e6),
        "monitor_cpu_us": spent_s * 1e6 / applied,
        "redis_cpu_us": cost.cpu_us / applied,
        "script_ms_a_call": cost.script_us / cost.calls / 1000,
    }


async def measure(redis: Redis) -> Figures:
    """Measure the delay, then the rate; the links of the latter are not downloaded."""
    frontiers = await open_divided([redis], NUMBER)
    with tempfile.TemporaryDirectory(prefix="crawlstream-bench-") as folder:
        async with own_kafka(folder, frontier=NUMBER) as kafka:
            env = divided(environment(redis, kafka, folder), NUMBER)
            delays = percentiles(await delays_ms(kafka, folder, env))
            return {**delays, **await rate(redis, frontiers, kafka, folder, env)}


if __name__ == "__main__":
    Benchmark(
        name="links",
        about="Links into a partition by one kafka-monitor; from page to page across two.",
        measure=measure,
        lines={
            "links_per_s": Line(floor=40_000, goal=80_000, unit="1/s", more=True),
            "p50_ms": Line(floor=300, goal=300, unit="ms"),
            "p99_ms": Line(floor=800, goal=800, unit="ms"),
        },
        repetitions=1,
    ).main()
