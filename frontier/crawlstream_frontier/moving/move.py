"""The move of all data of the old frontier, from partition to partition."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from crawlstream.model.url import domain_key
from crawlstream.tasks import together
from crawlstream_frontier.codec.values import mapping, unpack
from crawlstream_frontier.moving.filling import Filling, Founding
from crawlstream_frontier.moving.moved_crawl import MovedCrawl, of_one, of_several
from crawlstream_frontier.moving.throttled import shifted
from crawlstream_frontier.moving.unchanged_keys import copy_keys
from crawlstream_frontier.moving.unloading import (
    About,
    CrawlPart,
    Domain,
    Fields,
    Lost,
    MovedQueue,
    Unloading,
)
from crawlstream_frontier.partitions.frontiers import Frontiers
from crawlstream_frontier.shelves.shelf import Shelf

CRAWLS_AT_ONCE = 8
GENERATIONS = b"generations"
"""Field of ``m``: generation of each crawl in Kafka, from a time with several partitions."""
NOTHING: Mapping[bytes, bytes] = {}

T = TypeVar("T")


@dataclass(slots=True)
class MoveProgress:
    """Progress of a move."""

    crawls: int = 0
    pages: int = 0
    lost: int = 0
    """Pages that failed because they were missing on the shelf."""


@dataclass(slots=True)
class OldFrontier:
    """The data of the old frontier, except its pages."""

    parts: Sequence[Unloading]
    about: Sequence[About]
    crawls: Sequence[MovedCrawl]

    @property
    def waiting(self) -> int:
        """Number of pages that wait."""
        names = (b"queued", b"delayed")
        return sum(int(about.totals.get(name, 0)) for about in self.about for name in names)


async def read_frontier(frontiers: Frontiers, shelf: Shelf | None) -> OldFrontier:
    """Return the data of a frontier, except its pages; raises RedisUnavailable."""
    parts = [Unloading(p, each.scripts, shelf) for p, each in enumerate(frontiers)]
    about = await together(part.about() for part in parts)
    contexts = await together(part.crawls() for part in parts)
    if len(parts) == 1:
        crawls = [*of_one(contexts[0].values(), about[0].positions)]
    else:
        registry: dict[bytes, tuple[dict[bytes, Any], Fields]] = {}
        by_name = defaultdict[bytes, list[CrawlPart]](list)
        for found in await together(part.registry() for part in parts):
            registry.update(found)
        for own in contexts:
            for name, context in own.items():
                by_name[name].append(context)
        crawls = [*of_several(registry, by_name)]
    kept = [crawl for crawl in crawls if crawl.contexts or crawl.is_open]
    for number, crawl in enumerate(sorted(kept, key=lambda each: each.name), 1):
        crawl.c = b"%d" % number
    noted = about[0].meta.get(GENERATIONS)
    generations = mapping(unpack(noted)) if noted else {}
    for crawl in crawls:
        crawl.generation = max(crawl.generation, generations.get(crawl.name, 0))
    return OldFrontier(parts, about, crawls)


@dataclass(slots=True)
class Move:
    """A move from beginning to end."""

    old: OldFrontier
    new: Filling
    told: Callable[[MoveProgress], None] = lambda _: None
    progress: MoveProgress = field(default_factory=MoveProgress)

    async def run(self) -> Founding:
        """Fill the new frontier; processes cannot use it before ``Filling.open``.

        RedisUnavailable, ShelfUnavailable, FrontierFull: begin again with ``Filling.wipe``.
        """
        if self.new.number == 1:
            self._resume_left()
        founding = Founding.of(self.old.about, self.old.crawls, self.new.number)
        await self.new.begin(founding)
        await self._keys()
        await self._states(founding)
        turn = asyncio.Semaphore(CRAWLS_AT_ONCE)

        async def one(crawl: MovedCrawl) -> None:
            async with turn:
                await _Moving(self, crawl, founding).run()

        for start in range(0, len(self.old.crawls), 1000):
            await together(one(crawl) for crawl in self.old.crawls[start : start + 1000])
        return founding

    def target(self, domain: bytes) -> int:
        """Return the new partition of a domain, or of a site in a domain."""
        name = domain.decode()
        if b"sites" in self.old.about[0].meta:
            name = domain_key(name)
        return self.new.frontiers.partitions.of(name)

    def _resume_left(self) -> None:
        """Open the next run of ended crawls that still have waiting pages.

        With several partitions, such pages wait for the next run.
        """
        for crawl in self.old.crawls:
            if crawl.waiting and not crawl.is_open:
                crawl.is_open, crawl.run = True, crawl.run + 1

    async def _keys(self) -> None:
        every = [each.scripts for each in self.new.frontiers]
        for part in self.old.parts:
            for pattern in part.scripts.keys.kept():
                await copy_keys(part.scripts, every, pattern)
        root = self.old.parts[0].scripts
        for pattern in root.keys.kept_of_cluster():
            await copy_keys(root, every[:1], pattern)

    async def _states(self, founding: Founding) -> None:
        for part, about in zip(self.old.parts, self.old.about, strict=True):
            by_ms = founding.clock - about.number(b"clock")
            async for states in part.states():
                targets = defaultdict[int, list[tuple[bytes, bytes]]](list)
                for name, state in states:
                    if not name.startswith((b"#", b"=")):  # A gate's is as if it were used up.
                        target = self.target(name.partition(b" ")[0])
                        targets[target].append((name, shifted(state, by_ms)))
                await together(self.new.states(p, each) for p, each in targets.items())


class _Moving:
    """The move of one crawl."""

    def __init__(self, move: Move, crawl: MovedCrawl, founding: Founding) -> None:
        self._move = move
        self._new = move.new
        self._crawl = crawl
        self._clock = founding.clock
        self._sources = len(move.old.parts)
        lasts = [context.counter(b"slab") for context in crawl.contexts]
        self._slabs = (max(lasts, default=0) + 1) * self._sources if any(lasts) else 0
        self._there: dict[int, asyncio.Task[None]] = {}

    async def run(self) -> None:
        crawl = self._crawl
        if crawl.run:
            await self._new.registered(crawl)
        if crawl.c:
            await self._at(self._new.coordinator_of(crawl) if self._new.number > 1 else 0)
            for context in crawl.contexts:
                await self._context(context)
            await together(self._new.adopt(p, crawl, is_last=True) for p in self._there)
        self._move.progress.crawls += 1
        self._move.told(self._move.progress)

    async def _at(self, partition: int) -> None:
        """Create the crawl in a partition if it is not there yet."""
        if partition not in self._there:
            making = self._new.crawl(partition, self._crawl, self._slabs, self._clock)
            self._there[partition] = asyncio.ensure_future(making)
        await self._there[partition]

    async def _context(self, context: CrawlPart) -> None:
        old = self._move.old
        part, numbers = old.parts[context.partition], self._crawl.numbering(context)
        if all(number == new for number, new in numbers.items()):
            numbers = NOTHING
        slabs = defaultdict[int, set[int]](set)
        async for domains in _ahead(part.domains(context)):
            targets = defaultdict[int, list[Domain]](list)
            for domain in domains:
                target = self._move.target(domain.name)
                targets[target].append(domain)
                slabs[domain.slab].add(target)
            await together(self._domains(p, context, each, numbers) for p, each in targets.items())
        async for first, sets in part.slabs(context):
            await self._share_slabs(context, first, sets, slabs)
        for spider in old.about[context.partition].spiders:
            await self._delayed(context, spider, numbers)

    async def _domains(
        self,
        partition: int,
        context: CrawlPart,
        domains: Sequence[Domain],
        numbers: Mapping[bytes, bytes],
    ) -> None:
        await self._at(partition)
        items = [
            (
                *(domain.name, True, domain.counted, self._slab(context, domain.slab)),
                *(domain.own, _flat(domain.queues, numbers), domain.used, domain.standing),
            )
            for domain in domains
        ]
        left_out = await self._new.adopt(partition, self._crawl, domains=items)
        for domain in domains:
            if domain.name not in left_out:
                self._count(sum(len(queue.entries) for queue in domain.queues))
                await self._rest(partition, context, domain, numbers)

    async def _rest(
        self, partition: int, context: CrawlPart, domain: Domain, numbers: Mapping[bytes, bytes]
    ) -> None:
        """Move the fingerprints and entries of a domain that were not read with it."""
        part = self._move.old.parts[context.partition]

        async def add(own: Sequence[bytes], queues: Sequence[object]) -> None:
            item = (domain.name, False, 0, 0, own, queues)
            await self._new.adopt(partition, self._crawl, domains=[item])

        async for own in part.own(context, domain):
            await add(own, ())
        for queue in domain.queues:
            async for entries in part.rest(context, domain, queue):
                if isinstance(entries, Lost):
                    await self._new.adopt(partition, self._crawl, lost=[entries])
                    self._move.progress.lost += entries.pages
                else:
                    more = queue._replace(plain=entries)
                    await add((), _flat([more], numbers))
                    self._count(len(entries))

    async def _share_slabs(
        self,
        context: CrawlPart,
        first: int,
        sets: Sequence[Sequence[bytes]],
        used: Mapping[int, set[int]],
    ) -> None:
        """Copy each slab to all partitions of its domains: fingerprints do not name a domain."""
        targets = defaultdict[int, list[tuple[int, Sequence[bytes]]]](list)
        for number, members in enumerate(sets, first):
            for target in used.get(number, ()) if members else ():
                targets[target].append((self._slab(context, number), members))
        await together(self._new.slabs(p, self._crawl, each) for p, each in targets.items())

    async def _delayed(
        self, context: CrawlPart, spider: bytes, numbers: Mapping[bytes, bytes]
    ) -> None:
        old = self._move.old
        by_ms = self._clock - old.about[context.partition].number(b"clock")
        async for members in old.parts[context.partition].delayed(context, spider):
            targets = defaultdict[int, list[object]](list)
            for member, due in members:
                _, side, priority, domain, entry = member.split(b" ", 4)
                times = int(priority), side, float(due) + by_ms
                target = self._move.target(domain)
                moved = _renumbered(entry, numbers)
                targets[target].append([domain, spider, *times, moved])
            for target in targets:
                await self._at(target)
            await together(
                self._new.adopt(p, self._crawl, delayed=each) for p, each in targets.items()
            )
            self._count(len(members))

    def _slab(self, context: CrawlPart, slab: int) -> int:
        """Return the new number of a slab; 0: none."""
        return slab * self._sources + context.partition if slab else 0

    def _count(self, pages: int) -> None:
        self._move.progress.pages += pages
        self._move.told(self._move.progress)


def _flat(queues: Iterable[MovedQueue], numbers: Mapping[bytes, bytes]) -> list[object]:
    flat: list[object] = []
    for queue in queues:
        entries = queue.plain
        if numbers:
            entries = [_renumbered(entry, numbers) for entry in entries]
        if entries:
            flat += [queue.spider, queue.priority, entries]
    return flat


def _renumbered(entry: bytes, numbers: Mapping[bytes, bytes]) -> bytes:
    """Return an entry with the number of its profile in the new frontier."""
    if not numbers:
        return entry
    end = 0
    while entry[end : end + 1].isdigit():
        end += 1
    return numbers.get(entry[:end], entry[:end]) + entry[end:]


async def _ahead(parts: AsyncIterator[T]) -> AsyncIterator[T]:
    """Yield the parts, requesting each while the previous one is processed."""
    following = asyncio.ensure_future(anext(parts, None))
    try:
        while (part := await following) is not None:
            following = asyncio.ensure_future(anext(parts, None))
            yield part
    finally:
        following.cancel()
