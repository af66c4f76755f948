"""Reads the data of one partition of the old frontier in bounded parts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from operator import attrgetter
from typing import Any, NamedTuple

from crawlstream.errors import ConfigError
from crawlstream_frontier.codec.chunks import unpack_chunk
from crawlstream_frontier.codec.entries import listed_as, unlisted
from crawlstream_frontier.codec.values import pack, unpack
from crawlstream_frontier.scripts import Scripts, our_errors
from crawlstream_frontier.shelves.shelf import Shelf

Fields = dict[bytes, bytes]
_OWN_SPLIT_FROM, _OWN_PER_SET = 400, 209
"""As in ``lua/includes/own_sets.lua``."""
SLABS_A_CALL = 20
_DONE = b"0"
_PROMOTED = 2
"""Answer of ``unload.lua`` for a page that was promoted and waits."""


class Lost(NamedTuple):
    """Pages of a chunk that the shelf does not have."""

    domain: bytes
    chunk: bytes
    pages: int


@dataclass(slots=True)
class About:
    """State of a partition as a whole."""

    meta: Fields
    positions: dict[bytes, int]
    enrolled: dict[bytes, int]
    epochs: Fields
    totals: Fields
    spiders: Sequence[bytes]

    def number(self, name: bytes) -> int:
        """Return a number in ``m``; 0 if it is missing."""
        return int(self.meta.get(name, 0))


@dataclass(slots=True)
class CrawlPart:
    """Part of a crawl in one partition; the whole crawl if there is one partition."""

    partition: int
    name: bytes
    c: bytes
    number: int
    """Number of its run; with several partitions, of its generation."""
    is_live: bool
    """True if it accepts pages."""
    ledger: Fields
    profiles: Fields
    shift: int
    forget_at: bytes
    """Time by the clock of its frontier; empty while a run is open."""

    def counter(self, name: bytes) -> int:
        """Return a counter of the ledger."""
        return int(self.ledger.get(name, 0))


class MovedQueue(NamedTuple):
    """Entries of a domain with one priority, and the places of further ones."""

    spider: bytes
    priority: int
    head: int
    entries: Sequence[bytes]
    chunks: Sequence[bytes]
    tail: int
    plain: Sequence[bytes] = ()
    """Entries without marks, as they are moved."""


@dataclass(slots=True)
class Domain:
    """A domain of a crawl."""

    name: bytes
    counted: int
    slab: int
    sets: int
    """Number of its own sets; the first is ``own``."""
    own: Sequence[bytes]
    queues: Sequence[MovedQueue] = field(default_factory=list)
    moved: set[bytes] = field(default_factory=set)
    """Fingerprints of promoted pages whose entry was moved."""
    used: bytes = b""
    """Bytes and pages that count for its budgets: text of ``includes/domain_budgets.lua``."""
    standing: bytes = b""
    """Links and pages that count for its host budget: text of ``includes/host_budgets.lua``."""


class Unloading:
    """Reads one partition of the old frontier, and changes nothing.

    RedisUnavailable, ShelfUnavailable: no answer.
    """

    def __init__(self, partition: int, scripts: Scripts, shelf: Shelf | None) -> None:
        self.partition = partition
        self.scripts = scripts
        self._shelf = shelf

    async def about(self) -> About:
        """Return the state of the partition as a whole."""
        meta, positions, enrolled, epochs, totals, spiders = await self._ask("about")
        return About(
            meta=_fields(meta),
            positions={place: int(at) for place, at in _fields(positions).items()},
            enrolled={place: int(at) for place, at in _fields(enrolled).items()},
            epochs=_fields(epochs),
            totals=_fields(totals),
            spiders=spiders,
        )

    async def crawls(self) -> Mapping[bytes, CrawlPart]:
        """Return its crawls, keyed by crawl name."""
        found: dict[bytes, CrawlPart] = {}
        async for part in self._scan("crawls"):
            for name, text, ledger, profiles, shift, forget_at in part:
                c, number, live = text.split()
                found[name] = CrawlPart(
                    partition=self.partition,
                    name=name,
                    c=c,
                    number=int(number),
                    is_live=live == b"1",
                    ledger=_fields(ledger),
                    profiles=_fields(profiles),
                    shift=int(shift),
                    forget_at=forget_at,
                )
        return found

    async def registry(self) -> Mapping[bytes, tuple[dict[bytes, Any], Fields]]:
        """Return the registry and the profiles by hash of each crawl whose coordinator it is."""
        found = {}
        async for part in self._scan("registry"):
            for name, packed, profiles in zip(part[::3], part[1::3], part[2::3], strict=True):
                found[name] = unpack(packed), _fields(profiles)
        return found

    async def domains(self, context: CrawlPart) -> AsyncIterator[Sequence[Domain]]:
        """Yield the domains of a crawl; a domain may occur twice."""
        own_spider = context.name.partition(b":")[0]
        async for part in self._scan("domains", context.c, own_spider):
            domains = [_domain(each) for each in part]
            for domain in domains:
                # If a page has two entries, that with the higher priority is moved.
                queues = sorted(domain.queues, key=attrgetter("priority"), reverse=True)
                domain.queues = [
                    queue._replace(plain=await self._plain(context, domain, queue.entries))
                    for queue in queues
                ]
            yield domains

    async def sizes(self, context: CrawlPart) -> AsyncIterator[Sequence[int]]:
        """Yield the number of own fingerprints of domains; a domain may occur twice."""
        async for part in self._scan("sizes", context.c):
            yield part

    async def rest(
        self, context: CrawlPart, domain: Domain, queue: MovedQueue
    ) -> AsyncIterator[Sequence[bytes] | Lost]:
        """Yield the entries of a band after those that were read with it, in their order."""
        place = [queue.spider, b"%s/%d" % (context.c, queue.priority), domain.name]
        at = len(queue.entries)
        while at < queue.head:
            some = await self._ask("band", "b", *place, at)
            yield await self._plain(context, domain, some)
            at += len(some)
        for chunk in queue.chunks:
            entries: Sequence[bytes] | Lost = await self._chunk(domain.name, chunk)
            if not isinstance(entries, Lost):
                entries = await self._plain(context, domain, entries)
            yield entries
        at = 0
        while at < queue.tail:
            some = await self._ask("band", "bt", *place, at)
            yield await self._plain(context, domain, some)
            at += len(some)

    async def own(self, context: CrawlPart, domain: Domain) -> AsyncIterator[Sequence[bytes]]:
        """Yield the fingerprints of a domain after those that were read with it."""
        for number in range(1, domain.sets):
            yield await self._ask("own", context.c, domain.name, number)

    async def slabs(
        self, context: CrawlPart
    ) -> AsyncIterator[tuple[int, Sequence[Sequence[bytes]]]]:
        """Yield fingerprints of small domains: several slabs, and the number of the first."""
        last = context.counter(b"slab")
        for first in range(1, last + 1, SLABS_A_CALL):
            until = min(first + SLABS_A_CALL - 1, last)
            yield first, await self._ask("slabs", context.c, first, until)

    async def delayed(
        self, context: CrawlPart, spider: bytes
    ) -> AsyncIterator[Sequence[tuple[bytes, bytes]]]:
        """Yield delayed entries, with their times."""
        at = 0
        while found := await self._ask("delayed", context.c, spider, at):
            yield [*zip(found[::2], found[1::2], strict=True)]
            at += len(found) // 2

    async def states(self) -> AsyncIterator[Sequence[tuple[bytes, bytes]]]:
        """Yield the throttle states of domains; a domain may occur twice."""
        async for part in self._scan("states"):
            yield [*zip(part[::2], part[1::2], strict=True)]

    async def _plain(
        self, context: CrawlPart, domain: Domain, entries: Sequence[bytes]
    ) -> Sequence[bytes]:
        """Return entries without the marks of a score, one for each page; see ``inlinks.lua``.

        Pages that wait while they are moved are not promoted any more.
        """
        if not any(map(listed_as, entries)):
            return entries
        marks = {mark for entry in entries if (mark := listed_as(entry))}
        states = await self._states_of(context, domain.name, marks)
        plain = []
        for entry in entries:
            mark = listed_as(entry)
            state = states[mark] if mark else 1
            if mark and state == _PROMOTED:
                state = 0 if mark[0] in domain.moved else state
                domain.moved.add(mark[0])
            if state:
                plain.append(unlisted(entry))
        return plain

    async def _states_of(
        self, context: CrawlPart, queue: bytes, marks: set[tuple[bytes, bytes]]
    ) -> Mapping[tuple[bytes, bytes], int]:
        by_domain = defaultdict[bytes, list[tuple[bytes, bytes]]](list)
        for mark in marks:
            by_domain[mark[1] or queue].append(mark)
        states = dict[tuple[bytes, bytes], int]()
        for domain, some in by_domain.items():
            found = await self._ask("listed", context.c, domain, [mark[0] for mark in some])
            states |= zip(some, found, strict=True)
        return states

    async def _chunk(self, domain: bytes, chunk: bytes) -> Sequence[bytes] | Lost:
        id_, amount, place = chunk.split()
        if place == b"i":
            value = (await self._ask("chunk", id_))[0]
        else:
            value = await self._shelved(id_.decode())
        try:
            return unpack_chunk(id_, value)
        except ValueError:
            return Lost(domain, id_, int(amount))

    async def _shelved(self, id_: str) -> bytes:
        if self._shelf is None:
            raise ConfigError("pages wait on a shelf of their own: set CRAWLSTREAM_SHELF as it was")
        keys = self.scripts.keys
        with our_errors():
            name = await self.scripts.redis.hget(keys.shelf(), "name")
        return await self._shelf.get(keys.shelved_chunk(name.decode(), id_)) or b""

    async def _scan(self, what: str, *args: object) -> AsyncIterator[Any]:
        cursor = _DONE
        while True:
            cursor, part = await self._ask(what, *args, cursor)
            yield part
            if cursor == _DONE:
                return

    async def _ask(self, what: str, *args: object) -> Any:
        return unpack(await self.scripts.run("unload", what, pack(args)))


def _fields(flat: Sequence[bytes]) -> Fields:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _domain(listed: Sequence[Any]) -> Domain:
    name, record, own, queues, used = listed
    counted, slab, size, rest = record.split(b" ", 3)
    sets = 1 if int(size) <= _OWN_SPLIT_FROM else ceil(int(size) / _OWN_PER_SET)
    return Domain(
        name=name,
        counted=int(counted),
        slab=int(slab),
        sets=sets,
        own=own,
        queues=[MovedQueue(*queue) for queue in queues],
        used=used,
        standing=rest.partition(b",")[0],
    )
