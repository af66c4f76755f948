"""The stages of a move: each may be cut off anywhere, and the command be called again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from crawlstream.boot.failpoints import failpoint
from crawlstream.bus.connect import Kafka
from crawlstream.bus.factory import make_sink
from crawlstream.bus.history import partition_offsets, read_all, topic_id_of
from crawlstream.bus.records import Out
from crawlstream.errors import ConfigError, CrawlstreamError, FrontierFull, NoFrontier
from crawlstream.keys import FrontierKeys, Topics
from crawlstream.model.partitions.messages import CoordinatorMark
from crawlstream.stats.heartbeat import living_in
from crawlstream.wire import run_marks
from crawlstream_frontier.codec.values import crawl_from
from crawlstream_frontier.layout import BEING_FILLED, Layout
from crawlstream_frontier.moving.filling import Filling, Founding
from crawlstream_frontier.moving.move import Move, MoveProgress, OldFrontier, read_frontier
from crawlstream_frontier.moving.moved_crawl import MovedCrawl
from crawlstream_frontier.moving.unchanged_keys import delete_all
from crawlstream_frontier.moving.withdrawal import State, Withdrawal
from crawlstream_frontier.opening.redis_check import refuse_layout
from crawlstream_frontier.partitions.frontiers import Frontiers
from crawlstream_frontier.scripts import our_errors
from crawlstream_frontier.shelves.shelf import Shelf

POLL_S = 0.5
UNDER_WAY = {
    "held": "pages that crawlers have",
    "limbo": "links that wait for credits of a page limit",
    "spilled": "links that wait in Kafka, as Redis is full: raise its maxmemory",
    "ending": "runs that end",
    "swept": "crawls that are being deleted",
    "told": "changes that partitions are to hear of",
    "owed": "records that are to be published",
    "answered": "requests that are to be answered",
    "refused": "refusals that are to be published",
    "again": "seeds that are read again",
    "links": "records of links that are to be read",
    "seeds": "Kafka partitions that not all have read equally far",
}
"""Descriptions of work in progress, for people."""


@dataclass(slots=True)
class Stages:
    """A move from the old frontier into the new one."""

    old: Frontiers
    new: Frontiers
    kafka: Kafka
    topics: Topics
    group: str
    to: str
    """Where to, for people."""
    shelf: Shelf | None = None
    dedupe_ms: int = 600_000
    wait_s: float = 600.0
    say: Callable[[str], None] = lambda _: None
    told: Callable[[MoveProgress, int], None] = lambda _, __: None
    _filling: Filling = field(init=False)
    _withdrawal: Withdrawal = field(init=False)

    def __post_init__(self) -> None:
        self._filling = Filling(self.new, self.shelf, dedupe_ms=self.dedupe_ms)
        self._withdrawal = Withdrawal(self.old)

    async def run(self, until_stopped: Callable[[], Awaitable[None]]) -> MoveProgress | None:
        """All that is left to be done; what was moved, None if all was already.

        ``until_stopped`` returns when no process uses the old frontier any more.
        ConfigError, CrawlstreamError: a sentence that says what is in the way.
        """
        await agree_on_old(self.old)
        state, _ = await self._withdrawal.look()
        layouts = await self._filling.layouts()
        if state is State.FROZEN and layouts and await self._filling.is_complete():
            await self._filling.open()
            return None
        if any(layout.version != BEING_FILLED for layout in layouts):
            raise ConfigError(
                f"the new servers are not empty: they have a frontier"
                f" {self.new.partitions.namespace} with {max(x.partitions for x in layouts)}"
                " partition(s); choose others, or another --namespace"
            )
        if state is not State.FROZEN:
            await self._withdraw(until_stopped)
        return await self._copy()

    async def read(self) -> OldFrontier:
        """Return the contents of the old frontier."""
        return await read_frontier(self.old, self.shelf)

    async def back(self) -> None:
        """Give a move up that has not come to its end."""
        state, _ = await self._withdrawal.look()
        if state is not State.FROZEN:
            # Nothing is copied before.
            await self._withdrawal.back()
            return
        layouts = await self._filling.layouts()
        if any(layout.version != BEING_FILLED for layout in layouts):
            raise ConfigError("the frontier was moved already: it is in use where it is now")
        await self._withdrawal.back()
        await self._filling.wipe()

    async def forget(self) -> None:
        """Delete the old frontier, which was moved."""
        state, _ = await self._withdrawal.look()
        if state is not State.FROZEN or not await self._filling.is_open():
            raise ConfigError("this frontier was not moved to there: nothing was deleted")
        await self._withdrawal.forget()
        for frontier in self.old:
            scripts = frontier.scripts
            await delete_all(scripts, self.shelf, but=scripts.keys.moved())

    async def _withdraw(self, until_stopped: Callable[[], Awaitable[None]]) -> None:
        await self._withdrawal.begin(self.to)
        failpoint("repartition_begun")
        self.say("no more pages are handed out, and no requests are read")
        await self._drain()
        await self._note()
        failpoint("repartition_noted")
        await until_stopped()
        failpoint("repartition_stopped")
        state, under_way = await self._withdrawal.freeze()
        if state is not State.FROZEN:
            raise CrawlstreamError(
                f"the processes have left something undone ({_listed(under_way)}): start the"
                " monitors of the old frontier again, without crawlers, and repeat this command"
            )
        failpoint("repartition_frozen")

    async def _drain(self) -> None:
        """Wait until nothing is in progress."""
        before, since = "", time.monotonic()
        while under_way := await self._under_way():
            listed = _listed(under_way)
            if listed != before:
                before, since = listed, time.monotonic()
                self.say(f"waiting for {listed}")
            elif time.monotonic() - since > self.wait_s:
                raise CrawlstreamError(
                    f"for {self.wait_s:.0f} s nothing has become of {listed}: kafka-monitor and"
                    " redis-monitor of the old frontier must run. Repeat this command, or let the"
                    " old frontier go on with --cancel"
                )
            await asyncio.sleep(POLL_S)

    async def _under_way(self) -> Mapping[str, int]:
        _, under_way = await self._withdrawal.look()
        if len(self.old) == 1:
            return under_way
        return {**under_way, **await self._unread()}

    async def _unread(self) -> Mapping[str, int]:
        """Return the Kafka partitions that not all frontier partitions have read equally far."""
        positions = [await each.positions.known() for each in self.old]
        enrolled = [await each.coordinator.enrolled() for each in self.old]
        uneven = {
            place
            for place in {place for each in enrolled for place in each}
            if len({each.get(place) for each in (*positions, *enrolled)}) > 1
        }
        uneven |= {place[:2] for each in self.old for place in await each.positions.late()}
        topic = await topic_id_of(self.kafka, self.topics.links)
        offsets = await partition_offsets(self.kafka, self.topics.links, group=self.group)
        links = sum(
            max(offsets[p].end - at.get((topic, p), offsets[p].oldest), 0)
            for p, at in enumerate(positions)
        )
        return {name: n for name, n in (("links", links), ("seeds", len(uneven))) if n}

    async def _note(self) -> None:
        """Have Kafka know which runs have ended, for coordinators that lose their data later."""
        await self._withdrawal.note(await self._generations())
        old = await self.read()
        founding = Founding.of(old.about, old.crawls, len(self.new))
        marks = [
            (coordinator, CoordinatorMark(kind="life", redis_epoch=founding.epoch))
            for coordinator in range(max(len(self.old), len(self.new)))
        ]
        for crawl in old.crawls:
            coordinator = self._filling.coordinator_of(crawl)
            marks += [(coordinator, mark) for mark in _numbers_of(crawl, founding.epoch)]
        async with make_sink(self.kafka) as sink:
            for start in range(0, len(marks), 1000):
                await sink.send([self._out(*mark) for mark in marks[start : start + 1000]])

    def _out(self, coordinator: int, mark: CoordinatorMark) -> Out:
        value, key = (
            run_marks.encode_coordinator_mark(coordinator, mark),
            Topics.coordinator_key(coordinator, mark),
        )
        return Out(self.topics.runs, value, key, partition=0)

    async def _generations(self) -> Mapping[bytes, int]:
        """The latest generation of each crawl that Kafka knows of."""
        latest: dict[bytes, int] = {}
        for record in await read_all(self.kafka, self.topics.runs):
            if record.value and (record.key or b"").startswith(Topics.COORDINATOR_KEYS):
                _, mark = run_marks.decode_coordinator_mark(record.value)
                if mark.crawl and mark.generation:
                    name = FrontierKeys.crawl_field(mark.crawl).encode()
                    latest[name] = max(latest.get(name, 0), mark.generation)
        return latest

    async def _copy(self) -> MoveProgress:
        await self._filling.wipe()
        failpoint("repartition_wiped")
        old = await self.read()
        move = Move(old, self._filling, lambda now: self._progressed(now, old.waiting))
        try:
            await move.run()
        except FrontierFull as error:
            raise CrawlstreamError(
                "the new servers are full: raise their maxmemory, or give up with --cancel and use"
                " more of them; then repeat this command"
            ) from error
        failpoint("repartition_copied")
        await self._filling.complete()
        await self._filling.open()
        failpoint("repartition_opened")
        return move.progress

    def _progressed(self, now: MoveProgress, waiting: int) -> None:
        failpoint("repartition_page")
        self.told(now, waiting)


async def agree_on_old(old: Frontiers) -> None:
    """ConfigError where the old frontier is laid out otherwise than the settings say."""
    root = old.root.scripts
    keys = old.partitions.root
    with our_errors():
        noted = await root.redis.get(keys.layout())
        for key in (root.keys.meta(), root.keys.moved(), keys.meta(), keys.moved()):
            noted = noted or await root.redis.hget(key, "layout")
    if noted is None:
        raise NoFrontier
    refuse_layout(Layout.read(noted), old.partitions)


async def until_nobody_lives(old: Frontiers, wait_s: float, say: Callable[[str], None]) -> None:
    """Wait for a frontier's processes to be stopped; CrawlstreamError naming those that run."""
    begun, before = time.monotonic(), ""
    while living := await living_in(old.heartbeats):
        names = ", ".join(sorted(process.name for process in living))
        if time.monotonic() - begun > wait_s:
            raise CrawlstreamError(
                f"processes of the old frontier are still running: {names}. Stop them, and repeat"
                " this command"
            )
        if names != before:
            say(f"everything is at rest: stop these processes now: {names}")
        before = names
        await asyncio.sleep(POLL_S)


def _listed(under_way: Mapping[str, int]) -> str:
    return ", ".join(f"{amount:,} {UNDER_WAY[name]}" for name, amount in under_way.items())


def _numbers_of(crawl: MovedCrawl, epoch: int) -> Iterator[CoordinatorMark]:
    """Yield the marks of a crawl for Kafka: its open run, and the last one that has ended."""
    ended = crawl.run - 1 if crawl.is_open else crawl.run
    remember, _ = crawl.at_coordinator.get("remember", (None, ()))
    end = CoordinatorMark(
        kind="end",
        redis_epoch=epoch,
        crawl=crawl_from(crawl.name),
        generation=crawl.generation,
        run=ended,
        positions={place.decode(): at for place, at in crawl.over.items()},
        remember=remember,
    )
    if crawl.is_open:
        yield replace(end, kind="begun", run=crawl.run, positions={}, remember=None)
    if ended > 0:
        yield end
