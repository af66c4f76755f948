"""Writes the new frontier; processes cannot use its partitions before it is complete."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from crawlstream.errors import ConfigError, NoFrontier
from crawlstream_frontier.codec.values import pack, unpack
from crawlstream_frontier.layout import BEING_FILLED, LAYOUT, Layout
from crawlstream_frontier.moving.moved_crawl import MovedCrawl, Positions
from crawlstream_frontier.moving.unchanged_keys import delete_all
from crawlstream_frontier.moving.unloading import About
from crawlstream_frontier.partitions.frontiers import Frontiers
from crawlstream_frontier.scripts import Scripts, our_errors
from crawlstream_frontier.shelves.shelf import Shelf

DURABLE_S = 2.0
"""Seconds after which a write to Redis is on its disk (``appendfsync everysec``)."""
_ABOUT = (b"run_floor", b"crawls", b"turn")
_SAME = (
    *(b"scope", b"sites", b"shelve_at", b"most_of_crawl", b"most_of_all", b"grace"),
    *(b"prefix", b"node"),
)


@dataclass(frozen=True, slots=True)
class Founding:
    """State with which all partitions of the new frontier begin."""

    clock: int
    """Clock of the frontier, ms."""
    epoch: int
    """Epoch of Redis: larger than each epoch in the old frontier."""
    meta: Mapping[bytes, bytes]
    positions: Positions
    links: Mapping[int, Positions]
    """Positions in the topic of links, by partition."""
    epochs: Mapping[bytes, bytes]

    @classmethod
    def of(cls, old: Sequence[About], crawls: Iterable[MovedCrawl], new: int) -> Founding:
        """Derive the state from the old partitions; ``new`` is the new number of partitions."""
        numbers = {name: max(about.number(name) for about in old) for name in _ABOUT}
        gone = [crawl.run for crawl in crawls if not crawl.c]
        numbers[b"run_floor"] = max([numbers[b"run_floor"], *gone])
        same = {name: about.meta[name] for about in old for name in _SAME if about.meta.get(name)}
        read = old[0].enrolled if len(old) > 1 else old[0].positions
        return cls(
            clock=max(about.number(b"clock") for about in old),
            epoch=max(about.number(b"life") for about in old) + 1,
            meta={**same, **{name: b"%d" % number for name, number in numbers.items()}},
            positions=read,
            links=_links(old, new) if len(old) > 1 else {},
            epochs=old[0].epochs if len(old) == 1 else {},
        )


class Filling:
    """The new frontier while it is being filled.

    RedisUnavailable: no answer; begin again with ``wipe``. FrontierFull: there is no room.
    """

    def __init__(
        self, frontiers: Frontiers, shelf: Shelf | None, *, dedupe_ms: int = 600_000
    ) -> None:
        """``dedupe_ms``: how long the seen pages of an ended crawl are kept, with one partition."""
        self._dedupe_ms = dedupe_ms
        self.frontiers = frontiers
        self.number = len(frontiers)
        self._shelf = shelf
        self._servers = list({id(each): each for each in frontiers.servers}.values())

    async def layouts(self) -> Sequence[Layout]:
        """Return the layouts that exist under the name of the new frontier or this prefix.

        ConfigError: the servers still have a frontier that was moved to another place.
        """
        found = []
        for scripts in self._all():
            keys = scripts.keys
            with our_errors():
                noted = await scripts.redis.get(keys.layout())
                known = await scripts.redis.hget(keys.meta(), "layout")
                left = await scripts.redis.hget(keys.moved(), "moving")
                is_forgotten = await scripts.redis.hexists(keys.moved(), "forgotten")
            if left and not is_forgotten:
                raise ConfigError(
                    f"the new servers have the frontier {keys.namespace} still, which was moved to"
                    f" {left.decode()}: delete it with repartition --forget, or choose others"
                )
            found += [Layout.read(text) for text in (noted, known) if text]
        return found

    async def wipe(self) -> None:
        """Delete the data of an interrupted move."""
        for scripts in self._all():
            await delete_all(scripts, self._shelf)

    async def begin(self, founding: Founding) -> None:
        """Create partitions that only this process may use."""
        filled = Layout(BEING_FILLED, self.number).text
        if self.number > 1:
            await self._note_layouts(BEING_FILLED)
        for partition, frontier in enumerate(self.frontiers):
            meta = {
                **founding.meta,
                b"layout": filled.encode(),
                b"clock": b"%d" % founding.clock,
                b"wall": b"%d" % int(time.time() * 1000),
                b"missed": b"0",
                b"life": b"%d" % founding.epoch,
                b"restart": b"%d" % founding.clock,
                b"began": b"%d" % founding.epoch,
            }
            positions = {**founding.positions, **founding.links.get(partition, {})}
            enrolled = founding.positions if self.number > 1 else {}
            tables = [_flat(each) for each in (meta, positions, enrolled, founding.epochs)]
            await self._enlist(frontier.scripts, "begin", *tables)

    async def crawl(self, partition: int, crawl: MovedCrawl, slabs: int, clock: int) -> None:
        """Create a crawl in a partition, without pages."""
        forget_at, paused_until, shift = b"", -1, b"0"
        if self.number == 1:
            number, ledger = crawl.run, crawl.undivided(slabs)
            forget_at = max((each.forget_at for each in crawl.contexts), default=b"")
            if not crawl.is_open and not forget_at:
                forget_at = b"%d" % (clock + self._dedupe_ms)
            paused_until = -1 if crawl.paused_until is None else crawl.paused_until
            shift = b"%d" % crawl.shift
        else:
            number = crawl.generation
            is_coordinator = self.coordinator_of(crawl) == partition
            ledger = crawl.context(slabs, clock, is_coordinator=is_coordinator)
        known_as = b"%s %d 1" % (crawl.c, number)
        about = [crawl.name, known_as, crawl.c, ledger, crawl.profile_fields()]
        scripts = self.frontiers[partition].scripts
        await self._enlist(scripts, "crawl", *about, [shift, forget_at, paused_until])

    async def registered(self, crawl: MovedCrawl) -> None:
        """Register a crawl with its coordinator, if there are several partitions."""
        if self.number > 1:
            scripts = self.frontiers[self.coordinator_of(crawl)].scripts
            profiles = _flat(crawl.profiles)
            await self._enlist(
                scripts, "home", crawl.name, crawl.registry(), crawl.is_open, profiles
            )

    async def slabs(
        self, partition: int, crawl: MovedCrawl, slabs: Sequence[tuple[int, Sequence[bytes]]]
    ) -> None:
        """Write the seen pages of small domains, by the number of their slab."""
        flat = [part for slab in slabs for part in slab]
        await self._enlist(self.frontiers[partition].scripts, "slabs", crawl.c, flat)

    async def states(self, partition: int, states: Sequence[tuple[bytes, bytes]]) -> None:
        """Write the throttle states of domains."""
        flat = [part for pair in states for part in pair]
        await self._enlist(self.frontiers[partition].scripts, "states", flat)

    async def adopt(
        self,
        partition: int,
        crawl: MovedCrawl,
        *,
        domains: Sequence[object] = (),
        delayed: Sequence[object] = (),
        lost: Sequence[object] = (),
        is_last: bool = False,
    ) -> frozenset[bytes]:
        """Write pages, as ``adopt.lua`` takes them; return the domains that it has left out."""
        packed = pack([crawl.c, domains, delayed, lost, is_last])
        left_out = await self.frontiers[partition].scripts.run("adopt", packed)
        return frozenset(unpack(left_out))

    async def complete(self) -> None:
        """Mark the new frontier as complete: its data is not written again.

        A Redis that loses its last second of data loses this mark too.
        """
        with our_errors():
            for frontier in self.frontiers:
                scripts = frontier.scripts
                await scripts.redis.hset(scripts.keys.meta(), "complete", "1")
        await asyncio.sleep(DURABLE_S)

    async def is_complete(self) -> bool:
        """Return whether all data is written."""
        with our_errors():
            for frontier in self.frontiers:
                scripts = frontier.scripts
                if not await scripts.redis.hexists(scripts.keys.meta(), "complete"):
                    return False
        return True

    async def open(self) -> None:
        """Allow processes to use it. Safe to repeat."""
        text = Layout(LAYOUT, self.number).text
        for frontier in self.frontiers:
            await self._enlist(frontier.scripts, "open", text)
        if self.number > 1:
            await self._note_layouts(LAYOUT)

    async def is_open(self) -> bool:
        """Return whether processes may use it."""
        found = [layout.version for layout in await self.layouts()]
        return bool(found) and min(found) == LAYOUT

    def coordinator_of(self, crawl: MovedCrawl) -> int:
        """Return the partition that has the registry of a crawl."""
        return self.frontiers.partitions.coordinator_of(crawl.name)

    async def _note_layouts(self, version: int) -> None:
        for server in self._servers:
            own = [p for p, its in enumerate(self.frontiers.servers) if its is server]
            share = "" if len(own) == self.number else f"{own[0]}-{own[-1]}"
            text = Layout(version, self.number, share).text
            with our_errors():
                await server.redis.set(self.frontiers.partitions.root.layout(), text)

    def _all(self) -> list[Scripts]:
        """Return the scripts of each server for the layout's name, and those of each partition."""
        root = self.frontiers.partitions.root
        roots = [Scripts(server.redis, root) for server in self._servers]
        return [*roots, *(each.scripts for each in self.frontiers if each.scripts.keys != root)]

    async def _enlist(self, scripts: Scripts, what: str, *args: object) -> None:
        if not await scripts.run("enlist", what, pack(args)):
            raise NoFrontier(f"{scripts.keys.tag} is not being filled any more")


def _links(old: Sequence[About], new: int) -> dict[int, Positions]:
    """Return the positions in the topic of links by partition, for partitions of both frontiers.

    The topic remains the same.
    """
    return {
        p: {place: at for place, at in about.positions.items() if place not in about.enrolled}
        for p, about in enumerate(old[:new])
        if new > 1
    }


def _flat(fields: Mapping[bytes, bytes] | Mapping[bytes, int]) -> list[object]:
    return [part for pair in fields.items() for part in pair]
