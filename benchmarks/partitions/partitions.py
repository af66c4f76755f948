"""What a page costs all Redis together where the frontier is divided, beside one that is whole.

A page is leased, has 20 children of which 70 % are known, and settles; those of its children that
lie in other partitions are packed as for Kafka, fifty pages together, and applied there. Frontiers
of one, two and four partitions take turns, so that a slow minute is slow for all. How much more
several Redis do at once is judged only where there are cores for that.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from statistics import fmean, median

from lib.divided import LINKS, fill_divided, hold_seeds, open_divided
from lib.harness import Benchmark, Figures, Line, measured, own_redis
from lib.load import CRAWL, SPIDER, domain_name, done, lease_and_settle, links
from page import BATCH, DOMAINS, Web
from redis.asyncio import Redis

from crawlstream.frontier.codec.link_records import pack_links, read_links
from crawlstream.frontier.link_cache import LinkCache
from crawlstream.frontier.partitions.frontiers import Frontiers
from crawlstream.frontier.partitions.reading import LinkBatch
from crawlstream.frontier.worker_session import WorkerSession
from crawlstream.model.effects import Links, Settle
from crawlstream.model.partitions.messages import LinkOrigin

NUMBERS = (1, 2, 4)
EACH = 20
"""Pages that wait in a domain at the beginning."""
ROUNDS, BATCHES_A_ROUND = 10, 16
SHALLOW_PAGES = 20_000
CORES = os.cpu_count() or 1


@dataclass(slots=True)
class Load:
    """One worker with a session in each partition of a frontier, and the reader of its links."""

    frontiers: Frontiers
    sessions: Sequence[WorkerSession]
    web: Web
    settles: list[list[Settle]]
    offsets: list[int]
    """Of the links of each partition: where the next record goes."""
    sent: LinkCache
    """What the worker has sent: it does not do so again."""

    @classmethod
    async def of(cls, servers: Sequence[Redis]) -> Load:
        """A frontier with a partition on each server, and pages in all domains."""
        number = len(servers)
        frontiers = await open_divided(servers, number)
        fillers = await hold_seeds(frontiers, CRAWL)
        await fill_divided(
            frontiers, fillers, [links(domain_name(d), EACH) for d in range(DOMAINS)]
        )
        sessions = [frontiers.session(p, "worker", SPIDER) for p in range(number)]
        return cls(frontiers, sessions, Web({}), [[] for _ in sessions], [0] * number, LinkCache())

    async def round(self) -> Sequence[float]:
        """Some pages of all partitions; µs a page of each Redis."""
        async with AsyncExitStack() as stack:
            servers = [server.redis for server in self.frontiers.servers]
            costs = [await stack.enter_async_context(measured(redis)) for redis in servers]
            pages = 0
            for _ in range(BATCHES_A_ROUND // len(self.sessions)):
                records: list[list[bytes]] = [[] for _ in self.sessions]
                for p in range(len(self.sessions)):
                    pages += await self._exchange(p, records)
                for p, values in enumerate(records):
                    await self._apply(p, values)
        return [cost.cpu_us / pages for cost in costs]

    async def _exchange(self, p: int, records: list[list[bytes]]) -> int:
        """Settle the pages of a partition and lease the next; their links go into ``records``."""
        answer = await self.sessions[p].exchange(settles=self.settles[p], want=BATCH)
        foreign: dict[tuple[int, LinkOrigin], list[Links]] = defaultdict(list)
        self.settles[p] = []
        for hold in answer.holds:
            own = []
            for group in self.web.children(hold.domain):
                target = self.frontiers.partitions.of(group.domain)
                origin = self.sessions[p].origin(hold.token)
                if target == p:
                    own.append(group)
                elif origin:
                    foreign[target, origin].append(group)
            need = {q: offset for q, offset in enumerate(self.offsets) if offset}
            self.settles[p].append(replace(done(hold, own), need=need))
        for (target, origin), groups in foreign.items():
            new, _ = self.sent.new_of(b"", groups)
            records[target] += pack_links(origin, merged(new)) if new else ()
        for group in (group for groups in foreign.values() for group in groups):
            self.sent.learn(0, b"", group.fingerprints)
        return len(answer.holds)

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
        share = SHALLOW_PAGES // len(self.sessions)
        calls = [
            lease_and_settle(f.scripts.redis, "bulk", share, keys=f.scripts.keys)
            for f in self.frontiers
        ]
        return sum(await asyncio.gather(*calls)) / (time.perf_counter() - began)


def merged(groups: Sequence[Links]) -> list[Links]:
    """Those of one domain together, as a crawler gathers them."""
    by_domain = dict[str, Links]()
    for group in groups:
        known = by_domain.get(group.domain)
        by_domain[group.domain] = group if known is None else _sum(known, group)
    return [*by_domain.values()]


def _sum(one: Links, other: Links) -> Links:
    return replace(
        one,
        fingerprints=[*one.fingerprints, *other.fingerprints],
        entries=[*one.entries, *other.entries],
    )


async def measure(redis: Redis) -> Figures:
    """All numbers of partitions in turns; ratios are taken within a turn."""
    async with AsyncExitStack() as stack:
        others = [await stack.enter_async_context(own_redis()) for _ in range(sum(NUMBERS) - 1)]
        servers = [redis, *others]
        loads = {}
        for number in NUMBERS:
            loads[number] = await Load.of([servers.pop() for _ in range(number)])
            await loads[number].round()
        rounds = [{n: await load.round() for n, load in loads.items()} for _ in range(ROUNDS)]
        speeds = {n: await load.pages_per_s() for n, load in loads.items()}
    figures = {f"us_a_page_{n}": median(sum(us[n]) for us in rounds) for n in NUMBERS}
    for n in NUMBERS[1:]:
        of_each = [fmean(us[n][p] for us in rounds) for p in range(n)]
        figures |= {
            f"cost_{n}_per_1": median(sum(us[n]) / sum(us[1]) for us in rounds),
            f"share_max_per_mean_{n}": max(of_each) / fmean(of_each),
            f"speed_{n}_per_1": speeds[n] / speeds[1],
        }
    return figures | {f"wall_pages_per_s_{n}": speed for n, speed in speeds.items()}


SPEED = {"speed_2_per_1": Line(floor=1.8, goal=1.9, unit="", more=True)}

if __name__ == "__main__":
    Benchmark(
        name="partitions",
        about="Redis' µs a page in all, with 1, 2 and 4 partitions on as many Redis.",
        measure=measure,
        lines={
            **{f"cost_{n}_per_1": Line(floor=1.25, goal=1.1, unit="") for n in NUMBERS[1:]},
            **{f"share_max_per_mean_{n}": Line(floor=1.15, goal=1.1, unit="") for n in NUMBERS[1:]},
            **(SPEED if CORES >= 4 else {}),
        },
        repetitions=1,
    ).main()
