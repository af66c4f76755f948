"""A frontier under load: one crawl, links of 77 characters, workers that settle what they lease."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence

from redis.asyncio import Redis

from crawlstream.keys import FrontierKeys
from crawlstream.model.crawl import CrawlKey, Entry, Lease, Profile
from crawlstream.model.effects import IntakeBatch, Links, Loss, Outcome, Seed, Settle
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from crawlstream.wire.stored import encode_entry
from crawlstream_frontier.codec.values import pack, unpack
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.scripts import Scripts
from crawlstream_frontier.worker.session import DEADLINE_MS, WorkerSession

KEYS = FrontierKeys()
CRAWL = CrawlKey("link", "bench", "load")
SPIDER = CRAWL.spiderid
FILLER = "filler"
"""The worker that holds the seed, under which links are put, and never ends it."""
URL_SIZE = 77
LINKS_PER_CALL = 1_000

WIDE_OPEN = ThrottleRule(hits=1_000_000, window_s=1, moderated=False, concurrency=1_000_000)
"""Every domain may always be visited: the deepest possible backlog."""
SPACED = ThrottleRule(hits=1_000, window_s=1, concurrency=1_000)
"""Evenly spaced, as the default rule is, but so closely that there is always something due."""


def domain_name(number: int) -> str:
    """Return a name of 20 characters."""
    return f"host-{number:07d}.example"


def links(domain: str, count: int, *, priority: int = 50) -> Links:
    """New links into one domain. Their bodies are equal, which nothing in the frontier looks at."""
    url = f"http://{domain}/articles/2026/11/".ljust(URL_SIZE, "x")
    return Links(
        domain=domain,
        priority=priority,
        entries=[encode_entry(Entry(url=url, depth=1))] * count,
        fingerprints=[str(random.getrandbits(64) - 2**63) for _ in range(count)],
    )


async def open_frontier(
    redis: Redis, rule: ThrottleRule = WIDE_OPEN
) -> tuple[WorkerSession, Lease]:
    """An empty frontier under one rule; the worker that holds its only seed, and that lease."""
    await redis.flushall()
    frontier = Frontier(redis, KEYS)
    await frontier.positions.restore(Loss(topic_id="bench", kafka_partition=0, offset=0))
    await frontier.rules.copy(ThrottleTable(default=rule, czxid=1, mzxid=1))
    seed = Seed(
        offset=0,
        timestamp_ms=0,
        crawl=CRAWL,
        domain="seed.example",
        priority=100,
        fingerprint="0",
        entry=encode_entry(Entry(url="http://seed.example/")),
        profile=Profile(),
    )
    batch = IntakeBatch(topic_id="bench", kafka_partition=0, start=0, next=1, records=[seed])
    await frontier.intake.apply(batch)
    filler = frontier.session(FILLER, SPIDER)
    return filler, (await filler.exchange(want=1)).leases[0]


async def put_all(filler: WorkerSession, lease: Lease, groups: Iterable[Links]) -> None:
    """Put groups of links below the seed, as many a call as a call takes."""
    batch: list[Links] = []
    for group in groups:
        batch.append(group)
        if sum(len(group.entries) for group in batch) >= LINKS_PER_CALL:
            await filler.put_links(lease.token, batch)
            batch = []
    await filler.put_links(lease.token, batch)


async def fill(filler: WorkerSession, lease: Lease, domains: int, each: int) -> None:
    """Put ``each`` links into every one of ``domains`` domains."""
    await put_all(filler, lease, (links(domain_name(d), each) for d in range(domains)))


def done(lease: Lease, groups: Sequence[Links] = ()) -> Settle:
    """The end of a page, with its children."""
    return Settle(token=lease.token, outcome=Outcome.DONE, reason="2xx", links=groups, sent_ms=1)


async def lease_and_settle(
    redis: Redis, worker: str, entries: int, batch: int = 100, *, keys: FrontierKeys = KEYS
) -> int:
    """Lease entries in batches and end each with the next call; answers how many there were.

    Speaks to the operation itself, so that Redis is what limits it and not the values of Python.
    """
    scripts = Scripts(redis, keys)
    call, leased = 0, 0
    ends: list[object] = []
    while True:
        call += 1
        want = min(batch, entries - leased)
        request = [call, worker, SPIDER, want, DEADLINE_MS, [], ends, [], [], []]
        answer = unpack(await scripts.run("exchange", pack(request)))
        tokens = [f"{call}-{place}" for place in answer[0][::4]]
        leased += len(tokens)
        if want == 0:
            return leased
        ends = [["done", "2xx", tokens, [1] * len(tokens), [1000] * len(tokens)]]
        if not tokens:
            await asyncio.sleep(0.001)
