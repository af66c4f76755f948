"""The figures of docs/scaling.md on the size of a frontier are measured."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from redis.asyncio import Redis

from crawlstream.model.crawl import Entry
from crawlstream.model.effects import Links
from crawlstream.wire.stored import encode_entry
from crawlstream_frontier.shelves.shelf import Shelf
from crawlstream_frontier.shelves.stocking import SHELVE_FROM
from support import servers
from support.frontier.bench import KEYS, Bench, fingerprint, open_bench

PAGE = Path(__file__).parents[4] / "docs" / "scaling.md"
EACH = (1, 5, 50, 500, 5_000)
WAITING, SEEN = "wait in memory", "were seen"
INSIDE, OUTSIDE, SHELF = "wait, shelf in Redis", "wait, outer shelf", "on the outer shelf"
PAGES = 5_000
AT_ONCE = 50
HOUR_MS, SECOND_MS = 3_600_000, 1_000
MOST_STEPS = 1_000
OF_THE_SEED = 2
"""Domains whose limits are kept at the end: that of the seed, which never ends."""
OFF_BY = 0.12
OFF_BY_BYTES = 6
"""Redis' tables grow in steps, and lists in blocks."""
AT_REST_S = 0.25
"""How long nothing may change before memory is taken for what the data needs."""
WORDS = ["harbour", "lantern", "compass", "orchard", "signal", "mooring", "silver", "ledger"]


def told() -> dict[tuple[str, int], float]:
    """The table: bytes a page by row and pages a domain, where there is a figure."""
    rows = re.findall(r"^\| ([^|]+) \|((?: [\d,]* ?\|){5})$", PAGE.read_text(), re.MULTILINE)
    return {
        (name.strip(), each): float(figure.replace(",", ""))
        for name, figures in rows
        for each, figure in zip(EACH, figures.split("|"), strict=False)
        if figure.strip()
    }


class Site(NamedTuple):
    """Links of 70 characters, each with the page that it is on."""

    domain: str
    chance: Random

    def links(self, count: int) -> Links:
        """New ones."""
        urls = [f"https://{self.domain}{self._path()}" for _ in range(count)]
        parent = f"https://{self.domain}{self._path()}"
        return Links(
            domain=self.domain,
            priority=40,
            fingerprints=[fingerprint(url) for url in urls],
            entries=[encode_entry(Entry(url=url, depth=2, parent_url=parent)) for url in urls],
        )

    def _path(self) -> str:
        slug = "-".join(self.chance.choices(WORDS, k=3))
        return f"/20{self.chance.randint(10, 26)}/{slug}-{self.chance.randrange(10**9)}".ljust(
            48, "x"
        )


async def used(redis: Redis) -> int:
    """Bytes of all but the texts of scripts and the buffers of clients.

    Redis shrinks its tables and frees values in the background: until that is done, it is queried
    again.
    """
    last, (now, pending) = 0, await _used_now(redis)
    while pending or now != last:
        await asyncio.sleep(AT_REST_S)
        last, (now, pending) = now, await _used_now(redis)
    return now


async def _used_now(redis: Redis) -> tuple[int, int]:
    of = await redis.info("memory")
    used = int(of["used_memory"] - of["used_memory_scripts"] - of["mem_clients_normal"])
    return used, of["lazyfree_pending_objects"]


async def fill(bench: Bench, each: int) -> float:
    """Let 5 000 pages wait, ``each`` per domain, as crawls find them; return the bytes per page."""
    await bench.feed.seeds("start.example/seed", priority=90)
    (lease,) = await bench.worker.lease()
    sites = [Site(f"site-{n:05}.example", Random(n)) for n in range(PAGES // each)]
    before = await used(bench.redis)
    for first in range(0, each, AT_ONCE):
        groups = [site.links(min(AT_ONCE, each - first)) for site in sites]
        await bench.worker.session.put_links(lease.token, groups)
        while not (await bench.frontier.stocking.step()).is_idle:
            pass
    return (await used(bench.redis) - before) / PAGES


async def empty(bench: Bench) -> None:
    """Fetch all of them, and let pass what their limits remember."""
    await bench.worker.crawl_all(200)
    assert not (await bench.state()).queued
    await bench.advance(HOUR_MS)
    for _ in range(MOST_STEPS):
        if await bench.redis.hlen(KEYS.tag + "t") <= OF_THE_SEED:
            return
        await bench.advance(SECOND_MS)
        await bench.worker.lease()
        await bench.frontier.maintenance.tend()
    pytest.fail("what the limits remember of domains does not go")


@asynccontextmanager
async def own_redis(folder: Path) -> AsyncIterator[Redis]:
    """A server without other users: memory that they leave to be freed would be counted."""
    with servers.redis(folder) as server:
        async with Redis(host="127.0.0.1", port=server.port) as client:
            yield client


async def anew(redis: Redis, shelve_from: int, shelf: Shelf | None = None) -> Bench:
    """An empty frontier."""
    await redis.flushall(asynchronous=False)
    bench = await open_bench(redis)
    bench.shelve(shelve_from, shelf)
    return bench


async def in_memory(redis: Redis, each: int) -> Mapping[str, float]:
    """Nothing is shelved, and all is fetched in the end."""
    bench = await anew(redis, 0)
    before = await used(redis)
    waiting = await fill(bench, each)
    await empty(bench)
    return {WAITING: waiting, SEEN: (await used(redis) - before) / PAGES}


async def shelved(redis: Redis, shelf: Redis, each: int) -> Mapping[str, float]:
    """In Redis, and on a server of its own."""
    inside = await fill(await anew(redis, SHELVE_FROM), each)
    await shelf.flushall(asynchronous=False)
    before = await used(shelf)
    outside = await fill(await anew(redis, SHELVE_FROM, Shelf(shelf, "there:1/0")), each)
    return {INSIDE: inside, OUTSIDE: outside, SHELF: (await used(shelf) - before) / PAGES}


async def test_pages_take_what_the_table_says(tmp_path: Path) -> None:
    """Compares the table with pages in memory, on either shelf, and with seen ones."""
    measured: dict[tuple[str, int], float] = {}
    async with own_redis(tmp_path / "redis") as redis, own_redis(tmp_path / "shelf") as shelf:
        await in_memory(redis, AT_ONCE)  # Redis needs some memory once, such as for scripts.
        await shelved(redis, shelf, AT_ONCE)
        for each in EACH:
            found = await in_memory(redis, each)
            if each > SHELVE_FROM:
                found = {**found, **await shelved(redis, shelf, each)}
            measured |= {(row, each): size for row, size in found.items()}
    table = told()
    assert table
    nearly = {
        place: pytest.approx(measured.get(place), rel=OFF_BY, abs=OFF_BY_BYTES) for place in table
    }
    assert table == nearly, f"docs/scaling.md: {measured}"
