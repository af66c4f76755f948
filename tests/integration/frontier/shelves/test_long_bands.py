"""The middle of a long band is on the shelf: users of the frontier do not notice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from redis.asyncio import Redis

from crawlstream.model.crawl import Entry
from crawlstream.model.effects import Command
from crawlstream.model.inspection import PagePlace
from crawlstream.wire.stored import encode_entry
from support.frontier.bench import CRAWL, GRACE_MS, KEYS, Bench, links, url_of

pytest_plugins = ["support.frontier.fixtures"]

PAGES = 400
SHELVE_FROM = 32


async def carry(bench: Bench) -> None:
    """Shelve and bring back until there is nothing to do."""
    while not (await bench.frontier.stocking.step()).is_idle:
        pass


async def put(bench: Bench, paths: Sequence[object], domain: str = "a") -> None:
    """Links of one held page, in calls of a few, carried in between; the page is done then."""
    await bench.feed.seeds(f"{domain}/seed", priority=90)
    (lease,) = await bench.worker.lease()
    for at in range(0, len(paths), 50):
        await bench.worker.session.put_links(lease.token, [links(domain, paths[at : at + 50])])
        await carry(bench)
    await bench.worker.settle(lease)


@pytest.fixture
async def long_band(bench: Bench) -> Bench:
    """A frontier in which 400 pages of one domain wait, most of them on the shelf."""
    bench.shelve(SHELVE_FROM)
    await carry(bench)
    await put(bench, range(PAGES))
    assert (await bench.state()).shelved > PAGES / 2
    return bench


async def crawl(bench: Bench, want: int = 7) -> list[str]:
    """Lease and settle until nothing is left, while a carrier works."""
    crawled: list[str] = []
    while (await bench.state()).queued:
        crawled += await bench.worker.crawl_all(want)
        await carry(bench)
    return crawled


async def test_pages_come_in_their_order(long_band: Bench) -> None:
    """First in, first out, though most were on the shelf; then nothing of it is left."""
    assert await crawl(long_band) == [f"a/{n}" for n in range(PAGES)]
    state = await long_band.state()
    assert (state.shelved, state.done) == (0, PAGES + 1)
    assert not await long_band.redis.keys(KEYS.tag + "chunk:*")
    assert not await long_band.redis.keys(KEYS.tag + "parts:*")
    await long_band.advance(GRACE_MS)
    await long_band.tend()
    assert (await long_band.events())[-1] == "crawl_finished"


async def test_what_comes_meanwhile_is_last(long_band: Bench) -> None:
    """A link that is put while others are on the shelf stands behind all of them."""
    first = await long_band.worker.lease(3)
    await long_band.worker.session.put_links(first[0].token, [links("a", range(1_000, 1_100))])
    await long_band.worker.settle(*first)
    rest = await crawl(long_band)
    assert rest == [f"a/{n}" for n in (*range(3, PAGES), *range(1_000, 1_100))]


async def test_what_is_given_back_is_first(long_band: Bench) -> None:
    """A page that is released stands before those on the shelf; a retry follows with its own."""
    released, *_ = await long_band.worker.lease(1)
    await long_band.worker.release(released)
    assert (await crawl(long_band))[0] == url_of(released)


async def test_a_higher_priority_wins(long_band: Bench) -> None:
    """Entries with a higher priority go before everything on the shelf."""
    await long_band.feed.seeds("a/urgent", priority=80)
    assert (await long_band.worker.urls(2)) == ["a/urgent", "a/0"]


async def test_memory_is_given_back(bench: Bench) -> None:
    """A page on the shelf in Redis takes less than half of what it took before."""
    redis: Any = bench.redis
    bench.shelve(0)
    await put(bench, [f"articles/{n * 7919}/a-page-about-number-{n}.html" for n in range(1_000)])
    (band,) = await redis.keys(KEYS.tag + "b:*")
    before = await redis.memory_usage(band, samples=0)
    bench.shelve(SHELVE_FROM)
    await carry(bench)
    await bench.feed.seeds(*(f"a/{n}" for n in range(SHELVE_FROM)), priority=40)
    await carry(bench)
    chunks = await redis.keys(KEYS.tag + "chunk:*")
    shelved = sum([await redis.memory_usage(chunk) for chunk in chunks])
    after = shelved + await redis.memory_usage(band, samples=0)
    assert (await bench.state()).shelved > 900
    assert after < before / 2


async def test_counts_are_of_all(long_band: Bench) -> None:
    """`info`, `survey` and the totals count queued pages, wherever they are."""
    state = await long_band.state()
    assert [domain.total for domain in state.domains] == [PAGES] == [state.queued]
    report = await long_band.frontier.inspector.domain("a")
    assert sum(band.queued for queue in report.queues for band in queue.first) == PAGES
    whole = await long_band.frontier.queries.state()
    assert (whole.queued, whole.shelved) == (PAGES, state.shelved)


@pytest.mark.parametrize("path", [0, PAGES // 2, PAGES - 1])
async def test_a_page_is_found_wherever_it_is(bench: Bench, path: int) -> None:
    """`inspect` reports its place in the queue: in the head, on the shelf, in the tail."""
    bench.shelve(SHELVE_FROM)
    await put(bench, range(PAGES), "a.example")
    page = await bench.frontier.inspector.page(CRAWL, f"http://a.example/{path}")
    assert page
    assert (page.where, page.sightings[0].place) == (PagePlace.QUEUED, path + 1)


@pytest.mark.parametrize("again", ["resume", "reprioritize"])
async def test_a_person_may_steer_it(long_band: Bench, again: str) -> None:
    """A pause holds everything; what was paused or moved is found again, in its order."""

    async def say(name: str, **aim: Any) -> None:
        command: Command = long_band.feed.command(name, **aim)
        await long_band.feed.put(command)

    if again == "resume":
        await say("pause")
        assert await long_band.worker.urls(40) == []
        await carry(long_band)
        await say("resume")
    else:
        await say("reprioritize", priority=99)
    await long_band.tend()
    assert await crawl(long_band) == [f"a/{n}" for n in range(PAGES)]


async def test_a_paused_band_without_a_head_comes_back(long_band: Bench) -> None:
    """It was paused when its next pages were on the shelf, and resumed after they came back."""
    head = await long_band.redis.llen((await long_band.redis.keys(KEYS.tag + "b:*"))[0])
    leased = await long_band.worker.lease(head)
    assert await long_band.worker.urls(1) == []
    await long_band.feed.say("pause")
    await carry(long_band)
    assert await long_band.worker.urls(1) == []
    await long_band.feed.say("resume")
    await long_band.tend()
    await long_band.worker.settle(*leased)
    assert await crawl(long_band) == [f"a/{n}" for n in range(head, PAGES)]


async def test_a_stop_takes_what_is_on_the_shelf(long_band: Bench) -> None:
    """It counts as stopped at once; its chunks are gone a little later."""
    await long_band.feed.say("stop")
    state = await long_band.state()
    assert (state.stopped, state.queued, state.shelved) == (PAGES, 0, 0)
    await long_band.tend()
    await carry(long_band)
    for pattern in ("chunk:*", "bc:*", "bt:*", "b:*", "parts:*"):
        assert not await long_band.redis.keys(KEYS.tag + pattern), pattern


async def test_what_waits_in_vain_fails_by_name(long_band: Bench) -> None:
    """Fails each page without a crawler after a day, those on the shelf too, and ends the run."""
    await long_band.worker.session.retire()
    await long_band.feed.say("info")
    long_band.limit(max_wait_ms=1_000)
    failed = 0
    for _ in range(60):
        await long_band.advance(4_000)
        await long_band.tend()
        await carry(long_band)
        failed += (await long_band.events()).count("page_failed")
    assert failed == PAGES
    assert (await long_band.state()).failed_by_reason == {"no_worker": PAGES}


async def test_nothing_more_is_shelved_when_that_is_off(long_band: Bench) -> None:
    """Entries on the shelf come back in their order, and none goes there."""
    long_band.shelve(0)
    before = (await long_band.state()).shelved
    await put(long_band, range(1_000, 1_200))
    assert (await long_band.state()).shelved <= before
    order = [*range(PAGES), *range(1_000, 1_200)]
    assert await crawl(long_band) == [f"a/{n}" for n in order]


async def test_a_band_without_a_head_waits_for_its_chunk(long_band: Bench) -> None:
    """Grants nothing out of order without a head, and wakes a worker for the chunk."""
    head = await long_band.redis.llen((await long_band.redis.keys(KEYS.tag + "b:*"))[0])
    leases = await long_band.worker.lease(head)
    answer = await long_band.worker.exchange(want=5)
    assert (answer.leases, answer.next_due_ms) == ([], None)
    async with long_band.redis.pubsub() as heard:
        await heard.subscribe(KEYS.wake_channel("w1"))
        await carry(long_band)
        assert await heard.get_message(ignore_subscribe_messages=True, timeout=0) is None
        message = await heard.get_message(ignore_subscribe_messages=True, timeout=5)
    assert message
    assert await long_band.worker.urls(1) == [f"a/{head}"]
    assert [url_of(lease) for lease in leases] == [f"a/{n}" for n in range(head)]


async def test_a_large_page_is_shelved_alone(bench: Bench, redis: Redis) -> None:
    """The size of a call bounds a chunk: of entries of 100 KB it has two."""
    bench.shelve(SHELVE_FROM)
    await carry(bench)
    body = b"x" * 100_000
    for n in range(40):
        seed = bench.feed.seed(f"a/{n}")
        entry = Entry(url=f"http://a/{n}", method="POST", body=body)
        await bench.feed.put(replace(seed, entry=encode_entry(entry)))
    await carry(bench)
    (band,) = await redis.keys(KEYS.tag + "bc:*")
    chunks: list[Any] = await redis.lrange(band, 0, -1)
    assert {int(chunk.split()[1]) for chunk in chunks} == {2}
    assert await crawl(bench, want=3) == [f"a/{n}" for n in range(40)]
