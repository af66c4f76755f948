"""A cut of the append-only file of one of three partitions, at any record of it.

A crawl is recorded; then, for each moment of it, each partition and each record of that, the
frontier is loaded with what the partition had up to there, and with all that the others had. The
crawl goes on from there: by the logs of Kafka, with workers that are new. As `test_aof.py` has it
for a frontier of one.

CUT_EVERY=1 cuts at each record: a minute of CPU.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest
from redis.asyncio import Redis

from crawlstream.errors import NotRestored
from crawlstream.model.effects import OutboxRecord, Seed
from crawlstream.model.partitions.messages import CoordinatorMark, Question, survivors
from crawlstream.model.throttle_table import ThrottleTable
from crawlstream_chaos.processes import RunningServer
from crawlstream_frontier.layout import Layout, create_frontier
from crawlstream_frontier.partitions.confirm import confirm, is_over, summed
from crawlstream_frontier.revocation import reap_all
from crawlstream_frontier.streams import Streams
from support.frontier.aof import Unit, file_of, replay, units_in
from support.frontier.bench import WIDE_OPEN
from support.partitions.real import INCOMING, LINKS, RealCluster
from support.partitions.values import COORDINATOR, Cluster

pytest_plugins = ("support.frontier.fixtures",)
pytestmark = pytest.mark.usefixtures("still")

CUT_EVERY = int(os.environ.get("CUT_EVERY", "19"))
REPLAYED_DB = 7
WEB = Cluster(
    places={"a": 0, "b": 1, "c": 2, "d": 0, "e": 1, "f": 2, "g": 0, "h": 1, "i": 2},
    links={"a": "bd", "b": "ce", "c": "afg", "e": "hd", "f": "i", "h": "i", "i": "ab"},
    incoming="ac",
    partitions=3,
)


class Crawl(RealCluster):
    """The crawl by everybody that takes part in it, in turn."""

    def __init__(self, redis: Redis) -> None:
        super().__init__(redis, WEB)
        self.fetched: list[str] = []
        self.told: list[OutboxRecord] = []
        """Beginnings and endings, as published."""
        self.moments: list[Moment] = []
        """After each round of all."""

    async def record(self, size_of: Callable[[], int]) -> None:
        """Crawl from the beginning, and remember how it came about, and how long the file was."""
        await self.begin()

        def note() -> None:
            logs = [[*log] for log in self.logs]
            moment = Moment(size_of(), [*self.fetched], logs, [*self.marks], [*self.told])
            self.moments.append(moment)

        assert await self.run(note)

    async def go_on(self, moment: Moment, place: int) -> None:
        """Kafka's data stays as it was; a partition has gone back, and its workers are gone."""
        self.logs, self.marks = [[*log] for log in moment.logs], [*moment.marks]
        self.told, self.fetched = [*moment.told], [*moment.fetched]
        part = self.parts[place]
        await create_frontier(part.frontier.scripts, Layout(partitions=WEB.partitions))
        for each in self.parts:
            each.epochs[1] = await each.contexts.epoch()
        await part.go_back(None, 2)
        await part.frontier.rules.copy(ThrottleTable(default=WIDE_OPEN, czxid=1, mzxid=1))
        await self._reap(place)
        assert await self.run()

    async def run(self, note: Callable[[], None] = lambda: None) -> bool:
        """Until nothing more happens; answers whether the run is over."""
        for _ in range(40):
            await self._enroll()
            await self._read_links()
            await self._publish()
            if await self._is_over():
                await self._publish()
                note()
                return True
            await self._work()
            note()
        return False

    async def _reap(self, place: int) -> None:
        """Take everything back from the workers of a partition: they are gone."""
        part = self.parts[place]
        for name in await part.redis.keys(part.keys.tag + "h:*"):
            worker = name.decode().removeprefix(part.keys.tag + "h:")
            await reap_all(part.frontier.scripts.run, worker, "")

    async def _enroll(self) -> None:
        """Coordinators enroll the seeds, and partitions take them."""
        coordinator = self.parts[COORDINATOR].coordinator
        try:
            await coordinator.labels([])
        except NotRestored as error:
            self.marks.append(CoordinatorMark(kind="life", redis_epoch=error.redis_epoch))
            await coordinator.restore(
                error.redis_epoch, survivors((COORDINATOR, mark) for mark in self.marks)
            )
        end = len(self.records)
        await coordinator.begin(INCOMING, 0, 0)
        stamps = (await coordinator.enroll(self.batch(0, end))).stamps
        for place, part in enumerate(self.parts):
            start = await part.reading.begin(INCOMING, 0, 0)
            own = [
                record
                for record in self.records
                if isinstance(record, Seed) and self.partitions.of(record.domain) == place
            ]
            await part.reading.take(
                replace(self.batch(start, end), start=start, records=own), stamps
            )

    async def _read_links(self) -> None:
        for place, part in enumerate(self.parts):
            for offset in range(await part.reading.begin(LINKS, place, 0), len(self.logs[place])):
                await self.apply(place, offset)

    async def _work(self) -> None:
        """A page of each partition is fetched, published and settled."""
        for place, part in enumerate(self.parts):
            question = Question(self.context(0), await self.wanted(place))
            epoch = await part.contexts.epoch()
            await confirm(
                lambda _: self.parts[COORDINATOR].coordinator, part.contexts, epoch, [question]
            )
            await part.advance()
            found = await self.lease(place)
            if found is None:
                continue
            work, url = found
            links = WEB.links.get(url, "")
            children = {
                other: frozenset(one for one in links if WEB.places[one] == other)
                for other in range(WEB.partitions)
            }
            await self.publish(work, place, children)
            self.fetched.append(url)
            need = [len(log) for log in self.logs]
            need[place] = 0
            assert await self.settle(work, children[place], need)

    async def _is_over(self) -> bool:
        coordinator = self.parts[COORDINATOR].coordinator
        tells = await coordinator.changes()
        for place, part in enumerate(self.parts):
            await coordinator.acknowledge(
                await part.contexts.deliver([t for t in tells if t.partition == place])
            )
        runs, _ = await coordinator.quiet(0)
        for run in runs:
            looks = [await part.contexts.look([run.context]) for part in self.parts]
            if is_over(run, looks, 0, LINKS, coordinator=0):
                assert await coordinator.finish(run, summed(run, looks, 0))
                return True
        return bool(self._endings())

    async def _publish(self) -> None:
        """The outbox of the coordinator is in Kafka."""
        streams = Streams(self.redis, self.parts[COORDINATOR].keys, "reader")
        owed = await streams.records(count=20, block_ms=0)
        for one in owed:
            assert isinstance(one, OutboxRecord)
            self.told.append(one)
            if one.generation is not None:
                self.marks.append(
                    CoordinatorMark(
                        kind="end",
                        redis_epoch=one.redis_epoch,
                        crawl=one.crawl,
                        generation=one.generation,
                        run=one.run,
                        positions=one.positions,
                    )
                )
                await self.parts[COORDINATOR].coordinator.published(one.crawl, one.run)
        await streams.published([one.id for one in owed])

    def _endings(self) -> list[OutboxRecord]:
        return [one for one in self.told if one.kind == "crawl_finished"]

    def check(self, where: object) -> None:
        """Every page came, and however often the ending was published, it was the same."""
        assert set(self.fetched) == set(WEB.places), where
        endings = {
            (one.run, one.counters["admitted"], one.counters["done"]) for one in self._endings()
        }
        assert endings == {(1, PAGES, PAGES)}, where


PAGES = len(WEB.places)


@dataclass(frozen=True)
class Moment:
    """Where a recorded crawl had come to: what Kafka had, and how long the file was."""

    size: int
    fetched: Sequence[str]
    logs: Sequence[Sequence[bytes]]
    marks: Sequence[CoordinatorMark]
    told: Sequence[OutboxRecord]


def _is_of(unit: Unit, tag: bytes) -> bool:
    """Return whether a script has written this in a partition."""
    return any(part.startswith(tag) for command in unit for part in command[1:2])


async def test_no_cut_of_one_partition_loses_a_page_or_an_ending(
    redis: Redis, redis_server: RunningServer
) -> None:
    """Loses no page or ending, whichever record is the last on disk, at any moment."""
    crawl = Crawl(redis)
    file = await file_of(redis)
    await redis.flushdb()
    start = file.stat().st_size
    await crawl.record(lambda: file.stat().st_size)
    await redis.config_set("appendfsync", "everysec")
    crawl.check("recorded")
    units = [(start + at, unit) for at, unit in units_in(file.read_bytes()[start:])]
    async with Redis(host="127.0.0.1", port=redis_server.port, db=REPLAYED_DB) as other:
        cuts = 0
        for number, moment in enumerate(crawl.moments):
            then = [unit for at, unit in units if at <= moment.size]
            for place, part in enumerate(crawl.parts):
                own = [n for n, unit in enumerate(then) if _is_of(unit, part.keys.tag.encode())]
                for cut in range((number + place) % CUT_EVERY, len(own) + 1, CUT_EVERY):
                    lost = set(own[cut:])
                    await replay(other, [unit for n, unit in enumerate(then) if n not in lost])
                    again = Crawl(other)
                    await again.go_on(moment, place)
                    again.check(f"moment {number}, partition {place}, record {cut}")
                    cuts += 1
    assert cuts > 20
