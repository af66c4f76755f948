"""Sketches in a real Redis: replaced by one of many writers, bounded, and forgotten in time."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from crawling.waste.sketches import Counting, SiteVotes, count
from crawlstream.errors import FrontierFull
from crawlstream.keys import FrontierKeys
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.waste.packing import pack, serial_of, unpack
from crawlstream_frontier.waste.sketch import Sketch
from crawlstream_frontier.waste.votes import PageVote, SitePlace
from crawlstream_frontier.worker.sketch_store import (
    KEPT_MS,
    SKETCHES_PER_CALL,
    SketchStore,
    SketchWrite,
)
from support.session.own import own_redis_server
from support.spilling import filled

__all__ = ["own_redis_server"]

KEYS = FrontierKeys()
SITE = "a.example"
TRAP = SitePlace(1, ("?trap",))


@pytest.fixture
def store(redis: Redis) -> SketchStore:
    """Return a store of this test's own."""
    return Frontier(redis, KEYS).sketches


def _votes(count: int) -> list[PageVote]:
    return [PageVote(place=TRAP, text=7) for _ in range(count)]


def _new(domain: str, serial: int = 1) -> SketchWrite:
    return SketchWrite(domain, None, pack(Sketch(), serial))


async def _count(store: SketchStore, votes: int, raw: bytes | None = None) -> Counting:
    return await count(store, [SiteVotes(SITE, _votes(votes), raw)])


async def test_a_sketch_is_kept_for_14_days(store: SketchStore, redis: Redis) -> None:
    """Each change begins them again."""
    await _count(store, 16)
    await redis.pexpire(KEYS.guard(SITE), 5_000)
    await _count(store, 16)
    assert KEPT_MS - 60_000 < await redis.pttl(KEYS.guard(SITE)) <= KEPT_MS
    (raw,) = await store.read([SITE])
    assert (unpack(raw).pages, serial_of(raw)) == (32, 2)


async def test_workers_that_count_together_lose_no_vote(store: SketchStore) -> None:
    """A worker that comes second gets the new sketch and adds its votes to that."""
    await _count(store, 1)
    (raw,) = await store.read([SITE])
    tallies = await asyncio.gather(*(_count(store, 10, raw) for _ in range(3)))
    (now,) = await store.read([SITE])
    assert unpack(now).pages == 31
    assert sum(tally.conflicts for tally in tallies) in {2, 3}
    assert sum(len(tally.counted) for tally in tallies) == 3


async def test_a_verdict_is_reported_by_the_worker_that_stored_it(store: SketchStore) -> None:
    """Two workers come to it at the same time; only the first reports it."""
    await _count(store, 15)
    (raw,) = await store.read([SITE])
    tallies = await asyncio.gather(*(_count(store, 5, raw) for _ in range(2)))
    changes = [change for tally in tallies for each in tally.counted for change in each.changes]
    assert [(change.family, change.after) for change in changes] == [("?trap", "last")]


async def test_votes_are_dropped_after_three_tries(store: SketchStore) -> None:
    """A site that all workers crawl at once does not keep them busy."""

    class Contested(SketchStore):
        """Another worker is always first."""

        async def replace(self, writes: list[SketchWrite]) -> list[bytes | None]:  # type: ignore[override]
            await count(store, [SiteVotes(SITE, _votes(1), None)])
            return await super().replace(writes)

    contested = Contested(store._scripts)
    tally = await _count(contested, 100)
    assert (tally.conflicts, tally.counted) == (3, [])
    assert unpack((await store.read([SITE]))[0]).pages == 3


async def test_a_sketch_that_has_expired_meanwhile_is_written(
    store: SketchStore, redis: Redis
) -> None:
    """There is nothing that it could overwrite."""
    await _count(store, 16)
    (raw,) = await store.read([SITE])
    await redis.delete(KEYS.guard(SITE))
    assert len((await _count(store, 16, raw)).counted) == 1


@pytest.mark.parametrize("poison", [b"", b"\x01", b"\xff" * 24, b"\x01" * 3000, b"\x00" * 2040])
async def test_a_broken_sketch_of_one_site_changes_nothing_for_another(
    store: SketchStore, redis: Redis, poison: bytes
) -> None:
    """It counts as an empty one and is replaced by the next votes."""
    await redis.set(KEYS.guard("broken.example"), poison)
    sites = [SiteVotes(name, _votes(16), None) for name in ("broken.example", SITE)]
    tally = await count(store, sites)
    assert [each.sketch.pages for each in tally.counted] == [16, 16]
    broken, good = await store.read(["broken.example", SITE])
    assert unpack(broken).pages == unpack(good).pages == 16


async def test_a_call_takes_64_sites(store: SketchStore) -> None:
    """Sketches of many sites share one round trip, and each has its own answer."""
    domains = [f"{n}.example" for n in range(SKETCHES_PER_CALL)]
    await store.replace([_new(domain) for domain in domains[::2]])
    answers = await store.replace([_new(domain, 2) for domain in domains])
    assert [answer is None for answer in answers] == [False, True] * (SKETCHES_PER_CALL // 2)


async def test_sites_cannot_fill_redis_with_their_sketches(
    store: SketchStore, redis: Redis
) -> None:
    """All sketches share 5 % of the memory; the sites that are known longest are forgotten."""
    await redis.config_set("maxmemory", 40 << 20)
    try:
        most = int(0.05 * (40 << 20) / 2200)
        domains = [f"{n}.example" for n in range(most + 100)]
        for start in range(0, len(domains), SKETCHES_PER_CALL):
            some = domains[start : start + SKETCHES_PER_CALL]
            await store.replace([_new(domain) for domain in some])
        assert await redis.llen(f"{KEYS.tag}guards") == most
        kept = [raw is not None for raw in await store.read(domains)]
        assert kept == [False] * 100 + [True] * most
    finally:
        await redis.config_set("maxmemory", 0)


async def test_a_full_redis_takes_no_sketch(store: SketchStore, redis: Redis) -> None:
    """Its room is for pages."""
    await redis.config_set("maxmemory", 40 << 20)
    try:
        async with filled(redis, 1.5):
            with pytest.raises(FrontierFull):
                await store.replace([_new(SITE)])
    finally:
        await redis.config_set("maxmemory", 0)


async def test_a_claim_of_a_neighbour_is_held_longer_by_who_has_it(
    store: SketchStore, redis: Redis
) -> None:
    """No other process asks meanwhile; one that has run out is not renewed."""
    await store.hold_claim(SITE, 7, 60_000)
    assert await store.claim(SITE, 7, 5_000)
    assert not await store.claim(SITE, 7, 90_000)
    await store.hold_claim(SITE, 7, 60_000)
    assert 50_000 < await redis.pttl(KEYS.robots(f"neighbour {SITE} 00000007")) <= 60_000
