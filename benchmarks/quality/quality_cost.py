"""Compare what a page costs a crawler and Redis with the waste guard off, watching, and on.

A crawler works on pages of 20 KB in each mode, in turns. Instructions of Redis are counted for the
calls that a crawler makes for the same pages: leases, twenty links and ends; and, with the guard,
writes and reads of whole sketches. In mode ``watch`` a site writes its sketch every 16 pages. In
mode ``on``, a site with verdicts writes it each second: here, every four pages.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from shutil import which
from zlib import crc32

from lib.crawlers import MEASURED_S, Stage, Web, stage
from lib.harness import Benchmark, Figures, Line
from lib.instructions import redis_instructions
from lib.load import KEYS, SPIDER, done, fill, open_frontier
from page import Web as Links
from redis.asyncio import Redis

from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.waste.packing import MOST_BYTES, pack
from crawlstream_frontier.waste.sketch import Sketch
from crawlstream_frontier.waste.votes import PagePair, PageVote, SitePlace
from crawlstream_frontier.worker.sketch_store import SketchWrite

PAGES_A_WRITE = {"off": 0, "watch": 16, "on": 4}
SIZE = 20 * 1024
TURNS = 3
DOMAINS, BATCH = 100, 50
WARM, COUNTED = 1_000, 2_000
CALLS_A_READ = 10
"""Calls of a worker for each read of the sketches of its sites, in mode ``on``."""


def large_sketch() -> Sketch:
    """Return a sketch of a site with many texts and families."""
    sketch, chance = Sketch(), random.Random(1)
    votes = [
        PageVote(
            place=SitePlace(1, (f"/part{n % 20}/*",)),
            text=chance.randrange(1 << 32) if n % 3 else n % 16,
            address=n % 256,
            pairs=(PagePair("?sort", chance.randrange(1 << 24), n % 256),),
        )
        for n in range(3_000)
    ]
    sketch.merge(votes, 1)
    return sketch


async def counted(mode: str, redis: Redis, switch: Callable[[str], None]) -> int:
    """Make the calls for some pages in a mode; return the number of those that were counted."""
    random.seed(1)
    await fill(*await open_frontier(redis), DOMAINS, 100)
    frontier = Frontier(redis, KEYS)
    worker, store, web = frontier.session("counted", SPIDER), frontier.sketches, Links({})
    sketch, raws, votes = large_sketch(), dict[str, bytes](), Counter[str]()
    each, pages, calls, begun = PAGES_A_WRITE[mode], 0, 0, 0
    answer = await worker.exchange(want=BATCH)
    while pages < WARM + COUNTED:
        if pages >= WARM and not begun:
            switch("on")
            begun = pages
        # Links lead to ten times as many domains, which would have too few pages each.
        domains = [f"{crc32(lease.domain.encode()) % DOMAINS}.com" for lease in answer.leases]
        settles = [done(lease, web.children(lease.domain)) for lease in answer.leases]
        answer = await worker.exchange(settles=settles, want=BATCH)
        pages, calls = pages + len(settles), calls + 1
        votes.update(domains if each else ())
        due = [name for name, count in votes.items() if count >= each]
        if due:
            packed = {name: pack(sketch, calls) for name in due}
            await store.replace([SketchWrite(n, raws.get(n), packed[n]) for n in due])
            raws |= packed
            votes.subtract(dict.fromkeys(due, each))
        if mode == "on" and calls % CALLS_A_READ == 0:
            await store.read(sorted(set(domains)))
    switch("off")
    return pages - begun


async def _speeds(on: Stage) -> Figures:
    """Return the least CPU time of crawler and Redis for a page in each mode, of some turns."""
    figures: dict[str, float] = {}
    for mode in [*PAGES_A_WRITE] * TURNS:
        await on.prepare()
        env = {**on.environment, "CRAWLSTREAM_GUARD": mode}
        speed = await on.speed((sys.executable, "-P", "-m", "crawling", "link"), env=env)
        spent = {"crawler_ms": speed.cpu_ms["crawler"], "redis_us": speed.cpu_ms["redis"] * 1000}
        for name, each in spent.items():
            figures[f"{name}_{mode}"] = min(each, figures.get(f"{name}_{mode}", each))
    return figures


async def measure(redis: Redis) -> Figures:
    """Measure a crawler in each mode, and count instructions of Redis."""
    figures: dict[str, float] = {"sketch_bytes": len(pack(large_sketch(), 1))}
    assert figures["sketch_bytes"] <= MOST_BYTES
    async with stage(redis, Web(size=SIZE, is_mixed=True), measured_s=MEASURED_S) as on:
        figures |= await _speeds(on)
    for mode in PAGES_A_WRITE:
        count = await redis_instructions(partial(counted, mode))
        if count is not None:
            figures[f"instructions_{mode}"] = count
    for name in ("crawler_ms", "redis_us", "instructions"):
        off = figures.get(f"{name}_off")
        for mode in ("watch", "on"):
            if off:
                figures[f"{name}_{mode}_of_off"] = figures[f"{name}_{mode}"] / off
    return figures


_TIMES = {
    "crawler_ms_watch_of_off": Line(floor=1.06, goal=1.03, unit=""),
    "crawler_ms_on_of_off": Line(floor=1.10, goal=1.06, unit=""),
}
_COUNTS = {
    "instructions_watch_of_off": Line(floor=1.06, goal=1.03, unit=""),
    "instructions_on_of_off": Line(floor=1.06, goal=1.05, unit=""),
}

if __name__ == "__main__":
    Benchmark(
        name="quality-cost",
        about="What the waste guard costs a page, of a crawler and of Redis.",
        measure=measure,
        lines=_TIMES if which("valgrind") is None else {**_TIMES, **_COUNTS},
        repetitions=1,
    ).main()
