"""Compare the cost of a page for all Redis together between divided and undivided frontiers.

A page is leased, has 20 children of which 70 % are known, and settles; those of its children that
lie in other partitions are packed as for Kafka, fifty pages together, and applied there: those of
800 pages in as few calls as kafka-monitor makes, since so much arrives in the 80 ms for which
crawlers gather links where Redis is busy all the time. (`eager_`: after every fifty pages of each
partition, as where Redis is idle in between, and little depends on what it costs.) One worker
leaves out nearly all that it has put before; divided, that is all that it has sent, and in each
partition what it has put there. Of several workers each knows little of what the others have put.
Frontiers of one, two and four partitions take turns, so that a slow minute is slow for all. How
much more several Redis do at once is judged only where there are cores for that.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from itertools import cycle
from statistics import fmean, median

from lib.divided import LINKS, fill_divided, hold_seeds, open_divided
from lib.harness import Benchmark, Figures, Line, measured, own_redis
from lib.load import CRAWL, SPIDER, domain_name, done, lease_and_settle, links
from page import BATCH, DOMAINS, Web
from redis.asyncio import Redis

from crawlstream.model.effects import Links, Settle
from crawlstream.model.partitions.messages import LinkOrigin
from crawlstream_frontier.codec.link_batch import LinkBatch
from crawlstream_frontier.codec.link_records import pack_links, read_links
from crawlstream_frontier.partitions.frontiers import Frontiers
from crawlstream_frontier.worker.link_cache import LinkCache
from crawlstream_frontier.worker.session import WorkerSession

NUMBERS = (1, 2, 4)
EACH = 20
"""Pages that wait in a domain at the beginning."""
ROUNDS, BATCHES_A_ROUND = 10, 16
MANY_WORKERS = 8
SHALLOW_PAGES = 20_000
CORES = os.cpu_count() or 1

Costs = dict[int, Sequence[float]]
"""µs a page of each Redis, by number of partitions."""


@dataclass(slots=True)
class Worker:
    """A worker with a session in each partition."""

    sessions: Sequence[WorkerSession]
    settles: list[list[Settle]]
    sent: LinkCache
    """Links that it has sent and does not send again."""


@dataclass(slots=True)
class Load:
    """Workers that take turns, and the reader of their links."""

    frontiers: Frontiers
    workers: Iterator[Worker]
    web: Web
    offsets: list[int]
    """Offset of the next record in the links of each partition."""
    is_eager: bool = False
    """True if links are applied once each partition has had an exchange."""

    @classmethod
    async def of(cls, servers: Sequence[Redis], workers: int) -> Load:
        """A frontier with a partition on each server, and pages in all domains."""
        number = len(servers)
        frontiers = await open_divided(servers, number)
        fillers = await hold_seeds(frontiers, CRAWL)
        await fill_divided(
            frontiers, fillers, [links(domain_name(d), EACH) for d in range(DOMAINS)]
        )
        every = [
            Worker(
                [frontiers.session(p, f"worker{name}", SPIDER) for p in range(number)],
                [[] for _ in range(number)],
                LinkCache(),
            )
            for name in range(workers)
        ]
        return cls(frontiers, cycle(every), Web({}), [0] * number)

    async def round(self) -> Sequence[float]:
        """Some pages of all partitions; µs a page of each Redis."""
        async with AsyncExitStack() as stack:
            servers = [server.redis for server in self.frontiers.servers]
            costs = [await stack.enter_async_context(measured(redis)) for redis in servers]
            pages, number = 0, len(servers)
            records: list[list[bytes]] = [[] for _ in range(number)]
            for batch in range(BATCHES_A_ROUND):
                if batch % number == 0:
                    worker = next(self.workers)
                pages += await self._exchange(worker, batch % number, records)
                is_last_partition = batch % number == number - 1
                if batch == BATCHES_A_ROUND - 1 or (self.is_eager and is_last_partition):
                    for p, values in enumerate(records):
                        await self._apply(p, values)
                        values.clear()
        return [cost.cpu_us / pages for cost in costs]

    async def _exchange(self, worker: Worker, p: int, records: list[list[bytes]]) -> int:
        """Settle the pages of a partition and lease the next; their links go into ``records``."""
        answer = await worker.sessions[p].exchange(settles=worker.settles[p], want=BATCH)
        foreign: dict[tuple[int, LinkOrigin], list[Links]] = defaultdict(list)
        worker.settles[p] = []
        for lease in answer.leases:
            own = []
            new, _ = worker.sent.new_of(b"", self.web.children(lease.domain))
            origin = worker.sessions[p].origin(lease.token)
            for group in new:
                target = self.frontiers.partitions.of(group.domain)
                if target == p:
                    own.append(group)
                elif origin:
                    foreign[target, origin].append(group)
            need = {q: offset for q, offset in enumerate(self.offsets) if offset}
            worker.settles[p].append(replace(done(lease, own), need=need))
        for (target, origin), groups in foreign.items():
            records[target] += pack_links(origin, merged(groups))
            for group in groups:
                worker.sent.learn(0, b"", group.fingerprints)
        return len(answer.leases)

    async def _apply(self, p: int, values: Sequence[bytes]) -> None:
        start = self.offsets[p]
        found = [read_links(start + n, value) for n, value in enumerate(values)]
        self.offsets[p] += len(found)
        batch = LinkBatch(
            topic_id=LINKS, kafka_partition=p, start=start, next=self.offsets[p], records=found
        )
        for part in batch.parts() if found else ():
            await self.frontiers[p].reading.apply(part)

    async def pages_per_s(self) -> float:
        """Leases and settles without children, on all Redis at once; no more is left then."""
        began = time.perf_counter()
        share = SHALLOW_PAGES // len(self.frontiers)
        calls = [
            lease_and_settle(f.scripts.redis, "bulk", share, keys=f.scripts.keys)
            for f in self.frontiers
        ]
        return sum(await asyncio.gather(*calls)) / (time.perf_counter() - began)


def merged(groups: Sequence[Links]) -> list[Links]:
    """Return the links by domain, each once, as a crawler gathers them."""
    by_domain = dict[str, Links]()
    entries = defaultdict[str, dict[str, bytes]](dict)
    for group in groups:
        by_domain[group.domain] = group
        entries[group.domain].update(zip(group.fingerprints, group.entries, strict=True))
    return [
        replace(group, fingerprints=[*entries[domain]], entries=[*entries[domain].values()])
        for domain, group in by_domain.items()
    ]


async def measure(redis: Redis) -> Figures:
    """All numbers of partitions in turns; ratios are taken within a turn."""
    async with AsyncExitStack() as stack:
        others = [await stack.enter_async_context(own_redis()) for _ in range(sum(NUMBERS) - 1)]
        of_one, _ = await _rounds([redis, *others], workers=1)
        eager, _ = await _rounds([redis, *others], workers=1, is_eager=True)
        of_many, speeds = await _rounds([redis, *others], workers=MANY_WORKERS)
    return {
        **_costs(of_one),
        **{f"eager_{name}": value for name, value in _costs(eager).items()},
        **{f"many_{name}": value for name, value in _costs(of_many).items()},
        **{f"speed_{n}_per_1": speeds[n] / speeds[1] for n in NUMBERS[1:]},
        **{f"wall_pages_per_s_{n}": speed for n, speed in speeds.items()},
    }


async def _rounds(
    servers: list[Redis], *, workers: int, is_eager: bool = False
) -> tuple[list[Costs], dict[int, float]]:
    """Return a page's cost for each Redis by round and partitions, and the rate of all."""
    left, loads = [*servers], dict[int, Load]()
    for number in NUMBERS:
        loads[number] = await Load.of([left.pop() for _ in range(number)], workers)
        loads[number].is_eager = is_eager
    for _ in range(workers):
        for load in loads.values():
            await load.round()
    rounds = [{n: await load.round() for n, load in loads.items()} for _ in range(ROUNDS)]
    return rounds, {n: await load.pages_per_s() for n, load in loads.items()}


def _costs(rounds: list[Costs]) -> dict[str, float]:
    figures = {f"us_a_page_{n}": median(sum(us[n]) for us in rounds) for n in NUMBERS}
    for n in NUMBERS[1:]:
        of_each = [fmean(us[n][p] for us in rounds) for p in range(n)]
        figures |= {
            f"cost_{n}_per_1": median(sum(us[n]) / sum(us[1]) for us in rounds),
            f"share_max_per_mean_{n}": max(of_each) / fmean(of_each),
        }
    return figures


SPEED = {"speed_2_per_1": Line(floor=1.8, goal=1.9, unit="", more=True)}

if __name__ == "__main__":
    Benchmark(
        name="partitions",
        about="Redis' µs a page in all, with 1, 2 and 4 partitions on as many Redis.",
        measure=measure,
        lines={
            **{f"cost_{n}_per_1": Line(floor=1.25, goal=1.1, unit="") for n in NUMBERS[1:]},
            **{f"many_cost_{n}_per_1": Line(floor=1.25, goal=1.1, unit="") for n in NUMBERS[1:]},
            **{f"share_max_per_mean_{n}": Line(floor=1.15, goal=1.1, unit="") for n in NUMBERS[1:]},
            **(SPEED if CORES >= 4 else {}),
        },
        repetitions=1,
    ).main()
