"""A frontier of any number of partitions as clients and workers see it, with all that goes between.

Requests come through the product's intake, links to other partitions through logs as crawlers write
them, and runs end by the product's looks. ``settled`` does the processes' other work.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from crawlstream.bus.outbound import Outbound
from crawlstream.bus.records import Out
from crawlstream.errors import NotRestored
from crawlstream.keys import Partitions, Topics
from crawlstream.model.crawl import CrawlKey, Lease
from crawlstream.model.effects import (
    Effect,
    ExchangeResult,
    IntakeResult,
    Links,
    Loss,
    OutboxRecord,
    Outcome,
    Release,
    Requeue,
    Settle,
)
from crawlstream.model.partitions.messages import CoordinatorMark, survivors
from crawlstream.model.state import CrawlState
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from crawlstream.tasks import wait_until
from crawlstream.wire.run_marks import decode_coordinator_mark
from crawlstream_frontier.codec.link_batch import LinkBatch
from crawlstream_frontier.codec.link_records import pack_links, read_links
from crawlstream_frontier.partition_calls.coordinator import Coordinator
from crawlstream_frontier.partitions.frontiers import Frontiers
from crawlstream_frontier.partitions.labelling import Labelling
from crawlstream_frontier.worker.session import WorkerSession
from kafka_monitor.partitions.divided_intake import DividedIntake
from kafka_monitor.partitions.steps import Steps
from kafka_monitor.partitions.unavailable_partitions import UnavailablePartitions
from redis_monitor.partitions.endings import Endings
from support.frontier.bench import CRAWL, GRACE_MS, WIDE_OPEN, Feed, url_of

LINKS = "links"
DEDUPE_MS = 600_000
PLACE = "topic", 0
ASKED_AGAIN_MS = 50
"""Time until a domain is looked at again after a request to its coordinator."""

T = TypeVar("T")
Positions = Callable[[], Awaitable[Mapping[tuple[str, int], int]]]


class _Coordinators:
    """As kafka-monitor's, with a list for the topic that remembers for them."""

    def __init__(self, frontiers: Frontiers) -> None:
        self._frontiers = frontiers
        self._marks: defaultdict[int, list[CoordinatorMark]] = defaultdict(list)

    async def call(self, partition: int, question: Callable[[Coordinator], Awaitable[T]]) -> T:
        coordinator = self._frontiers[partition].coordinator
        try:
            return await question(coordinator)
        except NotRestored as error:
            await coordinator.restore(
                error.redis_epoch, survivors((partition, mark) for mark in self._marks[partition])
            )
        return await question(coordinator)

    async def note(self, partition: int, marks: Sequence[CoordinatorMark]) -> None:
        self._marks[partition] += marks

    async def send(self, records: Sequence[Out]) -> None:
        """Redis-monitor notes the endings that clocks of coordinators cause."""
        for record in records:
            coordinator, mark = decode_coordinator_mark(record.value)
            self._marks[coordinator].append(mark)


class Whole:
    """A frontier with any number of partitions."""

    def __init__(self, frontiers: Frontiers) -> None:
        self.frontiers = frontiers
        self.records = Feed(frontiers.root)
        self.every = range(len(frontiers))
        self.is_one = len(frontiers) == 1
        self._labelling = Labelling(frontiers)
        self._coordinators = _Coordinators(frontiers)
        coordinators: Any = self._coordinators
        self._topic: Any = self._coordinators
        steps = Steps(frontiers, coordinators, self._labelling)
        self._divided = DividedIntake(frontiers, steps, UnavailablePartitions(len(frontiers)))
        self._sessions: dict[tuple[str, int], WorkerSession] = {}
        self._logs: list[list[bytes]] = [[] for _ in self.every]
        self._applied = [0 for _ in self.every]
        self._readers = [frontiers.streams(p, "reader") for p in self.every]
        self._duties = [] if self.is_one else [self._duty(p) for p in self.every]
        self._version = 1

    def _duty(self, partition: int) -> Endings:
        async def links_topic() -> str:
            return LINKS

        return Endings(
            self.frontiers,
            partition,
            self._labelling,
            outbound=Outbound(self._topic, Topics()),
            sleeper=self.frontiers.sleeper(partition, "homes"),
            grace_ms=GRACE_MS,
            dedupe_ms=DEDUPE_MS,
            links_topic=links_topic,
        )

    async def begin(self) -> None:
        """Rules and positions for a frontier that was created."""
        await self.rule()
        if self.is_one:
            loss = Loss(topic_id=PLACE[0], kafka_partition=PLACE[1], offset=0)
            await self.frontiers.root.positions.restore(loss)
            return
        for p, frontier in enumerate(self.frontiers):
            await frontier.reading.begin(LINKS, p, 0)
            await self._coordinators.call(p, lambda coordinator: coordinator.labels([]))
        await self._divided.begin(*PLACE, 0)

    async def end(self) -> None:
        """Nothing goes on in the background any more."""
        await self._divided.stop()
        await self._labelling.stop()

    async def rule(self, default: ThrottleRule = WIDE_OPEN, **rules: ThrottleRule) -> None:
        """Let this table rule."""
        self._version += 1
        table = ThrottleTable(default=default, rules=rules, czxid=1, mzxid=self._version)
        assert await self.frontiers.rules.copy(table)

    def domains(self, each: int = 1) -> list[str]:
        """Return ``each`` domains of each of three partitions, alternating, for any frontier."""
        found: dict[int, list[str]] = {p: [] for p in range(3)}
        three, number = Partitions(number=3), 0
        while any(len(names) < each for names in found.values()):
            name = f"d{number}.example"
            found[three.of(name)].append(name)
            number += 1
        return [found[p][n] for n in range(each) for p in range(3)]

    # Clients.

    async def put(self, *records: Effect) -> IntakeResult:
        """Let requests take effect, everywhere."""
        batch = self.records.batch(*records)
        intake = self.frontiers.root.intake if self.is_one else self._divided
        result = await intake.apply(batch)
        await self.settled()
        return result

    async def seeds(self, *urls: str, **how: Any) -> IntakeResult:
        """Feed these URLs, each as ``<domain>/<path>``."""
        return await self.put(*(self.records.seed(url, **how) for url in urls))

    async def say(self, name: str, crawl: CrawlKey = CRAWL, **aim: Any) -> None:
        """Feed one action request."""
        await self.put(self.records.command(name, crawl, **aim))

    async def state(self, crawl: CrawlKey = CRAWL) -> CrawlState:
        """The ledger of a crawl, whose two sides are equal."""
        state = await self.frontiers.queries.crawl_state(crawl)
        assert state is not None
        assert (state.residual, state.missing_partitions) == (0, ())
        return state

    async def owed(self) -> list[OutboxRecord]:
        """Publish all pending reports to Kafka, and return them."""
        found: list[OutboxRecord] = []
        for p, reader in enumerate(self._readers):
            owed = list(await reader.records(count=1000, block_ms=0))
            await reader.published([one.id for one in owed])
            for one in owed:
                if isinstance(one, OutboxRecord):
                    found.append(one)
                    if one.generation is not None:
                        await self.frontiers[p].coordinator.published(one.crawl, one.run)
        return found

    async def endings(self) -> list[tuple[str, int]]:
        """Publish all pending reports, and return kind and run of the endings."""
        kinds = {"crawl_finished", "crawl_stopped", "crawl_expired"}
        return [(one.kind, one.run) for one in await self.owed() if one.kind in kinds]

    # Workers.

    def session(self, partition: int, worker: str = "w1") -> WorkerSession:
        """Return the session of a worker with a partition."""
        key = worker, partition
        if key not in self._sessions:
            self._sessions[key] = self.frontiers.session(partition, worker, CRAWL.spiderid)
        return self._sessions[key]

    async def lease(self, want: int = 100, worker: str = "w1") -> list[Lease]:
        """Lease up to ``want`` pages of all partitions."""
        leases: list[Lease] = []
        for p in self.every:
            if len(leases) < want:
                leases += await self.lease_at(p, want - len(leases), worker)
        return leases

    async def lease_at(self, partition: int, want: int = 1, worker: str = "w1") -> Sequence[Lease]:
        """Lease up to ``want`` pages of one partition, after its requests to coordinators."""
        session = self.session(partition, worker)
        answer = await session.exchange(want=want)
        if not answer.unconfirmed:
            return answer.leases
        self._labelling.request(partition, answer.unconfirmed)
        await self._answered()
        await self.advance(ASKED_AGAIN_MS)
        return [*answer.leases, *(await session.exchange(want=want - len(answer.leases))).leases]

    async def urls(self, want: int = 100) -> list[str]:
        """Lease pages; return them as ``<domain>/<path>``, sorted."""
        return sorted(map(url_of, await self.lease(want)))

    async def settle(
        self,
        lease: Lease,
        *links: Links,
        outcome: Outcome = Outcome.DONE,
        worker: str = "w1",
        **more: Any,
    ) -> ExchangeResult:
        """A page is complete; its links to other partitions are in the logs before."""
        session, of = self.session(lease.partition, worker), self.frontiers.partitions.of
        own = [group for group in links if of(group.domain) == lease.partition]
        for group in links:
            if group not in own:
                origin = session.origin(lease.token)
                assert origin
                self._logs[of(group.domain)] += pack_links(origin, [group])
        need = {q: len(log) for q, log in enumerate(self._logs) if log}
        more.setdefault("reason", {Outcome.DONE: "2xx", Outcome.FAILED: "dns"}.get(outcome, ""))
        settle = Settle(token=lease.token, outcome=outcome, links=own, need=need, **more)
        return await session.exchange(settles=[settle])

    async def release(self, lease: Lease, **how: Any) -> None:
        """Give a page back."""
        session = self.session(lease.partition)
        await session.exchange(releases=[Release(token=lease.token, **how)])

    async def requeue(self, lease: Lease, **how: Any) -> None:
        """Try a page again later."""
        session = self.session(lease.partition)
        await session.exchange(requeues=[Requeue(token=lease.token, **how)])

    async def crawl_all(self) -> list[str]:
        """Lease and settle until nothing is left; return the pages, sorted."""
        crawled: list[str] = []
        while leases := await self.lease():
            for lease in leases:
                await self.settle(lease)
                crawled.append(url_of(lease))
        return sorted(crawled)

    # Other work of the processes.

    async def settled(self) -> None:
        """Read all logs, answer all requests, and publish all reports."""
        for _ in () if self.is_one else range(3):
            await self._positions_move()
            for p, log in enumerate(self._logs):
                await self._apply(p, log)
            for duty in self._duties:
                await duty.look()
            await self._answered()

    async def _answered(self) -> None:
        while tasks := [*self._labelling._tasks.values()]:
            await asyncio.wait(tasks)

    async def _positions_move(self) -> None:
        for frontier in self.frontiers:
            for known in (frontier.positions.known, frontier.coordinator.enrolled):
                await wait_until(partial(self._has_come, known), every_s=0.002)

    async def _has_come(
        self, known: Callable[[], Awaitable[Mapping[tuple[str, int], int]]]
    ) -> bool:
        return (await known()).get(PLACE, 0) >= self.records.next

    async def _apply(self, p: int, log: Sequence[bytes]) -> None:
        start = self._applied[p]
        found = [read_links(start + n, value) for n, value in enumerate(log[start:])]
        batch = LinkBatch(
            topic_id=LINKS, kafka_partition=p, start=start, next=len(log), records=found
        )
        for part in batch.parts() if found else ():
            done = await self.frontiers[p].reading.apply(part)
            self._labelling.request(p, done.unconfirmed)
        self._applied[p] = len(log)

    async def advance(self, ms: int) -> None:
        """Let time pass on all frontier clocks."""
        for frontier in self.frontiers:
            scripts = frontier.scripts
            redis: Any = scripts.redis
            await redis.hincrby(scripts.keys.meta(), "clock", ms)

    async def tend(self) -> None:
        """Redis-monitors do whatever is due."""
        for frontier in self.frontiers:
            while (await frontier.maintenance.tend()).more:
                pass
        await self.settled()

    async def finish(self) -> None:
        """The time after which a run without a page is over has passed."""
        await self.settled()
        await self.advance(GRACE_MS + 1)
        await self.tend()
        await self.tend()

    def limit(self, **limits: int) -> None:
        """Let these limits of the cluster apply from the next care on."""
        for frontier in self.frontiers:
            maintenance = frontier.maintenance
            maintenance._limits = replace(maintenance._limits, **limits)


@asynccontextmanager
async def open_whole(frontiers: Frontiers) -> AsyncIterator[Whole]:
    """A frontier that was created and is empty."""
    whole = Whole(frontiers)
    await whole.begin()
    try:
        yield whole
    finally:
        await whole.end()
