"""Frontiers in one Redis that are moved, and what is in them, however they are divided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from redis.asyncio import Redis

from crawlstream.keys import Partitions
from crawlstream_frontier.codec.entries import header_of
from crawlstream_frontier.moving.filling import Filling
from crawlstream_frontier.moving.move import Move, MoveProgress, read_frontier
from crawlstream_frontier.moving.unloading import CrawlPart, Lost
from crawlstream_frontier.moving.withdrawal import State, Withdrawal
from crawlstream_frontier.partitions.frontiers import Frontiers, RedisServer
from crawlstream_frontier.shelves.shelf import Shelf

Waiting = Mapping[tuple[bytes, bytes, bytes, int], list[tuple[bytes, bytes]]]
"""By crawl, domain, spider and priority: profile and body of each entry, in order."""


def frontiers_in(redis: Redis, partitions: int, name: str, shelf: Shelf | None = None) -> Frontiers:
    """A frontier of this name, all of it in one Redis."""
    server = RedisServer(name="redis", redis=redis, waiting=redis)
    return Frontiers(Partitions(name, partitions), [server], shelf=shelf)


async def move(old: Frontiers, new: Frontiers, shelf: Shelf | None = None) -> MoveProgress:
    """Move all; no page may be in flight."""
    withdrawal = Withdrawal(old)
    assert await withdrawal.begin("elsewhere") == {}
    assert await withdrawal.freeze() == (State.FROZEN, {})
    filling = Filling(new, shelf)
    moving = Move(await read_frontier(old, shelf), filling)
    await moving.run()
    await filling.complete()
    await filling.open()
    return moving.progress


async def waiting_in(frontiers: Frontiers, shelf: Shelf | None = None) -> Waiting:
    """All that waits."""
    found: dict[tuple[bytes, bytes, bytes, int], list[tuple[bytes, bytes]]] = {}
    frontier = await read_frontier(frontiers, shelf)
    for crawl in frontier.crawls:
        for context in crawl.contexts:
            part = frontier.parts[context.partition]
            async for domains in part.domains(context):
                for domain in domains:
                    for queue in domain.queues:
                        entries = [*queue.plain]
                        async for more in part.rest(context, domain, queue):
                            assert not isinstance(more, Lost)
                            entries += more
                        place = crawl.name, domain.name, queue.spider, queue.priority
                        found[place] = [_entry(context, entry) for entry in entries]
    return found


async def delayed_in(frontiers: Frontiers) -> Counter[tuple[bytes, bytes, int]]:
    """Crawl, entry and ms until it is due of all that is kept back."""
    found = Counter[tuple[bytes, bytes, int]]()
    frontier = await read_frontier(frontiers, None)
    for crawl in frontier.crawls:
        for context in crawl.contexts:
            about = frontier.about[context.partition]
            for spider in about.spiders:
                async for members in frontier.parts[context.partition].delayed(context, spider):
                    for member, due in members:
                        body = _entry(context, member.split(b" ", 4)[4])[1]
                        found[crawl.name, body, int(due) - about.number(b"clock")] += 1
    return found


async def seen_in(frontiers: Frontiers) -> Mapping[bytes, set[bytes]]:
    """By crawl, all fingerprints."""
    found: dict[bytes, set[bytes]] = {}
    frontier = await read_frontier(frontiers, None)
    for crawl in frontier.crawls:
        seen = found.setdefault(crawl.name, set())
        for context in crawl.contexts:
            part = frontier.parts[context.partition]
            async for domains in part.domains(context):
                for domain in domains:
                    seen.update(domain.own)
                    async for more in part.own(context, domain):
                        seen.update(more)
            async for _, slabs in part.slabs(context):
                seen.update(*slabs)
    return found


async def ledgers_in(frontiers: Frontiers) -> Mapping[bytes, Counter[bytes]]:
    """By open crawl, the counters of all partitions together."""
    ends = b"done failed redirected skipped stopped expired".split()
    names = [b"admitted", *ends, *b"queued delayed counted bytes".split()]
    found: dict[bytes, Counter[bytes]] = {}
    for crawl in (await read_frontier(frontiers, None)).crawls:
        if crawl.is_open:
            sums = found.setdefault(crawl.name, Counter({b"run": crawl.run}))
            for context in crawl.contexts:
                _balanced(context)
                sums.update({name: context.counter(name) for name in names})
    return found


def _balanced(context: CrawlPart) -> None:
    """The equation of the ledger, which holds in every partition."""
    names = b"done failed redirected skipped stopped expired queued delayed held spilled".split()
    assert context.counter(b"admitted") == sum(map(context.counter, names)), context.ledger


def _entry(context: CrawlPart, entry: bytes) -> tuple[bytes, bytes]:
    header = header_of(entry)
    number = header.rstrip(b",").partition(b";")[0]
    marks: Any = header[len(number) :]
    return context.profiles[number] + marks, entry[len(header) :]
