"""A frontier ten times as large as its Redis, through real Kafka, with deaths and lost answers.

``OVERFLOW_MB=40 ./crawlstream test tests/integration/kafka_monitor/test_overflow.py`` takes a
larger Redis than the few megabytes that a quick look has.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from random import Random

import structlog
from redis.asyncio import Redis

from crawlstream.bus.connect import Kafka
from crawlstream.bus.records import Out
from crawlstream.bus.shape import TopicShape
from crawlstream.bus.sink import KafkaSink
from crawlstream.bus.topics import ensure_topics
from crawlstream.keys import Topics
from crawlstream.model.crawl import Lease
from crawlstream.model.effects import Links, Outcome, Settle
from crawlstream.tasks import beside
from crawlstream_chaos.processes import RunningServer
from crawlstream_frontier.sources import operations, source_of
from support.frontier.audit import audit, left_over
from support.frontier.bench import Bench, links, open_bench, url_of
from support.session.own import own_redis_server
from support.spilling import recalling

__all__ = ["own_redis_server"]

OPERATIONS = list(operations())
"""Redis keeps their texts, which are as much as all of a small one."""
MEMORY = int(float(os.environ.get("OVERFLOW_MB", "1.5")) * 2**20)
TIMES = 10
ROOMY = 20 * 2**20
"""From here on one call is small against the room that a crowded Redis has left."""
LEAVES_A_PAGE = 20
LONG = "x" * 1_900
"""Length of a leaf's URL: some 1 500 bytes of its entry."""
ENTRY_BYTES = 1_500
PAGES = TIMES * MEMORY // (LEAVES_A_PAGE * ENTRY_BYTES)
LEASE, A_CALL = 100, 10
DEATHS = 4
RECALL_LIVES_S = 6.0
"""How long one that recalls lives, before it is ended wherever it is."""

LONGEST_S = 300 + MEMORY / 20_000

log = structlog.get_logger()


def links_of(url: str) -> Sequence[Links]:
    """Links of a page: the seed's to all others, these to some long leaves each."""
    if url == "site/seed":
        return [links("site", (f"page/{i}" for i in range(PAGES)), priority=40)]
    if url.startswith("site/page/"):
        number = url.rpartition("/")[2]
        names = (f"{number}/{i}/{LONG}" for i in range(LEAVES_A_PAGE))
        return [links(f"leaf{int(number) % 50}", names, priority=30)]
    return ()


@dataclass
class Crawl:
    """Run one worker after the other, until nothing is left."""

    bench: Bench
    sink: KafkaSink
    topic: str
    random: Random = field(default_factory=lambda: Random(1))
    fetched: Counter[str] = field(default_factory=Counter)
    returned: Counter[str] = field(default_factory=Counter)
    """Leases of workers when they died."""
    spilled: int = 0
    deaths: int = 0
    most_used: float = 0.0
    is_crowded: bool = False

    def __post_init__(self) -> None:
        self.worker = self.bench.another_worker("w0")

    async def run(self) -> None:
        """Crawl until the run has come to its end."""
        while (await self.bench.state()).state == "running":
            leases = {lease.token: lease for lease in await self.worker.lease(LEASE)}
            self.fetched.update(map(url_of, leases.values()))
            while leases:
                await self._end_some(leases)
            await self._look_around()

    async def _look_around(self) -> None:
        memory = await self.bench.redis.info("memory")
        self.most_used = max(self.most_used, memory["used_memory"] / memory["maxmemory"])
        state = await self.bench.state()
        if not state.queued and not state.spilled:
            await self.bench.advance(1_000)
            await self.bench.tend()
        if not state.queued:
            await asyncio.sleep(0.05)

    async def _end_some(self, leases: dict[str, Lease]) -> None:
        some = list(leases.values())[:A_CALL]
        settles = [_settle(lease) for lease in some]
        if self.is_crowded:
            settles = [await self._spill(settle) for settle in settles]
            if self.spilled > (self.deaths + 1) * PAGES * LEAVES_A_PAGE // (DEATHS + 2):
                await self._die(leases)
                return
        answer = await self.worker.exchange(settles=settles)
        if self.random.random() < 0.1:
            # The answer was lost: all is repeated.
            answer = await self.worker.exchange(settles=settles)
            assert {settle.token for settle in settles} == answer.stale | answer.refused
        self.is_crowded = bool(answer.is_crowded)
        for settle in settles:
            if settle.token not in answer.refused:
                del leases[settle.token]

    async def _spill(self, settle: Settle) -> Settle:
        spills = self.worker.session.spill(settle)
        await self.sink.send([Out(self.topic, spill.value) for spill in spills])
        spilled = {spill.chunk: spill.links for spill in spills}
        self.spilled += sum(spilled.values())
        return replace(settle, links=(), spilled=spilled)

    async def _die(self, leases: dict[str, Lease]) -> None:
        """Between the send and the settle; another worker takes the pages over."""
        self.deaths += 1
        self.returned.update(map(url_of, leases.values()))
        assert await self.bench.blame(self.worker.name, "") == len(leases)
        leases.clear()
        self.worker = self.bench.another_worker(f"w{self.deaths}")


def _settle(lease: Lease) -> Settle:
    links = links_of(url_of(lease))
    return Settle(token=lease.token, outcome=Outcome.DONE, reason="2xx", links=links, sent_ms=0)


async def recall_with_deaths(redis: Redis, kafka_hosts: str, topics: Topics) -> None:
    """Recall, ended again and again, each next one beginning where the effects have come to."""
    while True:
        async with recalling(redis, kafka_hosts, topics):
            await asyncio.sleep(RECALL_LIVES_S)


@asynccontextmanager
async def capped(redis: Redis) -> AsyncIterator[None]:
    """For the length of the block Redis has so much room for data, whatever ran in it before."""
    for operation in OPERATIONS:
        await redis.script_load(source_of(operation))
    limit = (await redis.config_get("maxmemory"))["maxmemory"] or 0
    used = (await redis.info("memory"))["used_memory"]
    await redis.config_set("maxmemory", used + MEMORY)
    try:
        yield
    finally:
        await redis.config_set("maxmemory", limit)


async def test_a_frontier_ten_times_its_memory_drains(
    redis: Redis, kafka_server: RunningServer, fresh_name: str
) -> None:
    """Loses nothing and repeats nothing of a frontier ten times its memory; no key is left."""
    hosts, topics = f"127.0.0.1:{kafka_server.port}", Topics(fresh_name)
    await ensure_topics(Kafka([hosts], shape=TopicShape(partitions=2)), topics)
    bench = await open_bench(redis)
    await bench.feed.seeds("site/seed")
    async with (
        KafkaSink(Kafka([hosts])) as sink,
        capped(redis),
        beside(recall_with_deaths(redis, hosts, topics)),
        asyncio.timeout(LONGEST_S),
    ):
        crawl = Crawl(bench, sink, topics.overflow)
        await crawl.run()
    total = 1 + PAGES + PAGES * LEAVES_A_PAGE
    state = await bench.state()
    log.info("spill", pages=total, spilled=crawl.spilled, most_used=f"{crawl.most_used:.0%}")
    assert (state.state, state.admitted, state.done, state.spilled) == ("finished", total, total, 0)
    assert len(crawl.fetched) == total
    assert not crawl.fetched - crawl.returned - Counter(dict.fromkeys(crawl.fetched, 1))
    assert crawl.deaths >= DEATHS
    assert crawl.most_used < 1 or MEMORY < ROOMY
    assert crawl.spilled > total // 2
    for ms in (61_000, 3_600_000, 3_600_000, 3_600_000):
        await bench.advance(ms)
        await bench.tend()
    assert left_over(await audit(redis)) == set()
