"""The shelf on its own server: a death anywhere loses no page, and a loss there is reported."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any, cast

import pytest
from redis.asyncio import Redis

from crawlstream.errors import ConfigError, RedisUnavailable, ShelfUnavailable
from crawlstream.model.inspection import PagePlace
from crawlstream_chaos.processes import RunningServer
from crawlstream_frontier.scripts import Scripts
from crawlstream_frontier.shelves.shelf import Shelf
from crawlstream_frontier.shelves.stocking import Stocking, StockingResult
from support import servers
from support.frontier.audit import audit
from support.frontier.bench import (
    CRAWL,
    GRACE_MS,
    KEYS,
    Bench,
    keep_what_is_answered,
    links,
    open_bench,
    position_of,
)

pytest_plugins = ["support.frontier.fixtures"]

PAGES = 60
SHELVE_FROM = 16
HOUR_MS = 3_600_000
AGAIN_MS = 2_000
"""Time after which an order without an answer is given again."""
LEAST_CALLS = 20


@pytest.fixture(scope="module")
def shelf_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Another Redis."""
    with servers.redis(tmp_path_factory.mktemp("shelf")) as server:
        yield server


@pytest.fixture
async def server(shelf_server: RunningServer) -> AsyncIterator[Redis]:
    """A client of it; it is empty."""
    async with Redis(host="127.0.0.1", port=shelf_server.port) as client:
        await client.flushall()
        yield client


@pytest.fixture
def shelved(bench: Bench, server: Redis) -> Bench:
    """A frontier whose shelf it is."""
    bench.shelve(SHELVE_FROM, Shelf(server, "there:1/0"))
    return bench


async def carry(bench: Bench) -> None:
    """Shelve and bring back until there is nothing to do."""
    while not (await bench.frontier.stocking.step()).is_idle:
        pass


async def fill(bench: Bench, domain: str = "a.example") -> None:
    """Let 60 pages of one domain wait, most of them on the shelf."""
    await carry(bench)
    await bench.feed.seeds(f"{domain}/seed", priority=90)
    (lease,) = await bench.worker.lease()
    for at in range(0, PAGES, 30):
        group = links(domain, range(at, at + 30))
        await bench.worker.session.put_links(lease.token, [group])
        await carry(bench)
    await bench.worker.settle(lease)


async def crawl(bench: Bench) -> list[str]:
    """Lease and settle until nothing is left, while a carrier works."""
    crawled: list[str] = []
    for _ in range(200):
        crawled += await bench.worker.crawl_all(20)
        if not (await bench.state()).queued:
            break
        await carry(bench)
        await bench.advance(2_000)
    return crawled


def in_order() -> list[str]:
    """All pages in the order in which they came."""
    return [f"a.example/{n}" for n in range(PAGES)]


async def clean_up(bench: Bench) -> None:
    """Discarded chunks are deleted when Redis cannot go back that far any more."""
    for _ in range(3):
        await bench.advance(2 * HOUR_MS)
        await carry(bench)


async def test_pages_leave_redis_and_come_back_in_order(shelved: Bench, server: Redis) -> None:
    """Redis has some of them; the shelf has the others, and an hour later nothing any more."""
    await fill(shelved)
    state = await shelved.frontier.queries.state()
    assert state.shelved > PAGES / 2
    assert state.shelf_chunks == await server.dbsize()
    assert not await shelved.redis.keys(KEYS.tag + "chunk:*")
    assert await crawl(shelved) == in_order()
    assert await server.dbsize() == state.shelf_chunks
    await clean_up(shelved)
    assert await server.dbsize() == 0


async def test_inspect_looks_there(shelved: Bench) -> None:
    """A page on the shelf is found, with its place."""
    await fill(shelved)
    page = await shelved.frontier.inspector.page(CRAWL, f"http://a.example/{PAGES - 20}")
    assert page
    assert (page.where, page.sightings[0].place) == (PagePlace.QUEUED, PAGES - 19)


async def test_a_stop_clears_the_shelf(shelved: Bench, server: Redis) -> None:
    """Chunks that will not be crawled are deleted by their names."""
    await fill(shelved)
    await shelved.feed.say("stop")
    await shelved.tend()
    await carry(shelved)
    assert await server.dbsize() > 0
    await clean_up(shelved)
    assert await server.dbsize() == 0
    assert (await shelved.frontier.queries.state()).shelf_chunks == 0


class Monitors:
    """A redis-monitor whose n-th call is its last, with effect or without, and its successor."""

    def __init__(self, bench: Bench, server: Redis, dies_at: int, *, has_effect: bool) -> None:
        self._bench = bench
        self._calls = itertools.count(1)
        self._dies_at = dies_at
        self._has_effect = has_effect
        self.is_over = False
        scripts: Any = Scripts(bench.redis, KEYS)
        scripts.run = self._mortal(scripts.run)
        shelf: Any = Shelf(server, "s")
        for name in ("put", "get", "delete"):
            setattr(shelf, name, self._mortal(getattr(shelf, name)))
        how: Any = {"shelve_from": SHELVE_FROM, "lost_after_s": 0}
        self._mortal_one = Stocking(scripts, shelf, **how)
        self._next_one = Stocking(bench.frontier.scripts, Shelf(server, "s"), **how)

    def _mortal(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def called(*args: Any) -> Any:
            if next(self._calls) != self._dies_at:
                return await call(*args)
            self.is_over = True
            if self._has_effect:
                await call(*args)
            raise RedisUnavailable("dead")

        return called

    async def step(self) -> StockingResult:
        """A step of a living process."""
        if not self.is_over:
            try:
                return await self._mortal_one.step()
            except RedisUnavailable:
                await self._bench.advance(AGAIN_MS)
        return await self._next_one.step()


@pytest.mark.parametrize("has_effect", [False, True])
async def test_a_death_at_any_line_loses_nothing(
    redis: Redis, server: Redis, *, has_effect: bool
) -> None:
    """Delivers each page once and in order, wherever a redis-monitor dies."""
    for at in itertools.count(1):
        await redis.flushdb()
        await server.flushdb()
        bench = await open_bench(redis)
        monitors = Monitors(bench, server, at, has_effect=has_effect)
        bench.frontier.stocking = cast(Stocking, monitors)
        await fill(bench)
        assert await crawl(bench) == in_order(), at
        await audit(redis)
        await clean_up(bench)
        assert await server.dbsize() == 0, at
        if not monitors.is_over:
            break
    assert at > LEAST_CALLS


async def test_an_emptied_shelf_fails_its_pages_by_name(shelved: Bench, server: Redis) -> None:
    """Its entries fail as lost, each chunk reported; all else is crawled, and the run ends."""
    await fill(shelved)
    lost = (await shelved.state()).shelved
    await server.flushall()
    crawled = await crawl(shelved)
    assert len(crawled) == PAGES - lost
    assert crawled == [url for url in in_order() if url in crawled]
    state = await shelved.state()
    assert (state.failed_by_reason, state.queued) == ({"shelf_lost": lost}, 0)
    await shelved.advance(GRACE_MS)
    await shelved.tend()
    owed = await shelved.owed()
    told = [one for one in owed if one.kind == "shelf_lost"]
    assert sum(one.links for one in told) == lost
    assert {one.domain for one in told} == {"a.example"}
    assert owed[-1].kind == "crawl_finished"


async def test_several_lost_chunks_are_lost_one_by_one(bench: Bench, server: Redis) -> None:
    """Each is asked for in its turn, and given up in it, whichever others are asked for between."""
    shelf = Shelf(server, "there:1/0")
    patient: Any = {"shelve_from": SHELVE_FROM, "lost_after_s": 0.001}
    bench.frontier.stocking = Stocking(bench.frontier.scripts, shelf, **patient)
    for domain in ("a.example", "b.example"):
        await fill(bench, domain)
        await server.flushall()
        await bench.worker.crawl_all()
        assert not (await bench.frontier.stocking.step()).lost
        await bench.advance(AGAIN_MS // 2)
    waiting = (await bench.state()).shelved
    for _ in range(2 * waiting):
        await bench.worker.crawl_all()
        await bench.frontier.stocking.step()
        await bench.advance(AGAIN_MS // 2)
    state = await bench.state()
    assert (state.failed_by_reason, state.queued) == ({"shelf_lost": waiting}, 0)


async def test_a_chunk_with_other_content_is_lost(shelved: Bench, server: Redis) -> None:
    """Counts a chunk with other content, or a missing one, as lost."""
    await fill(shelved)
    first, second, *_ = sorted(await server.keys("*"))
    value: Any = await server.get(second)
    await server.set(first, value)
    await server.set(second, b"nonsense")
    crawled = await crawl(shelved)
    failed = (await shelved.state()).failed_by_reason["shelf_lost"]
    assert len(crawled) + failed == PAGES
    assert crawled == [url for url in in_order() if url in crawled]


async def test_a_shelf_that_is_away_is_waited_for(
    shelved: Bench, server: Redis, shelf_server: RunningServer
) -> None:
    """Waits for an unavailable shelf, and crawls what is in Redis meanwhile."""
    await fill(shelved)
    await keep_what_is_answered(server)
    shelf_server.kill()
    crawled = await shelved.worker.crawl_all()
    assert crawled == in_order()[: len(crawled)]
    with pytest.raises(ShelfUnavailable, match="there:1/0 does not answer"):
        await carry(shelved)
    assert await shelved.worker.urls() == []
    shelf_server.start()
    await shelved.advance(AGAIN_MS)
    assert crawled + await crawl(shelved) == in_order()


async def test_another_shelf_is_refused(shelved: Bench, server: Redis) -> None:
    """Refuses another shelf while chunks are on the old one."""
    await fill(shelved)
    for other in (None, Shelf(server, "elsewhere:1/0")):
        shelved.shelve(SHELVE_FROM, other)
        with pytest.raises(ConfigError, match=r"on the shelf there:1/0, but CRAWLSTREAM_SHELF is"):
            await carry(shelved)
    shelved.shelve(SHELVE_FROM, Shelf(server, "there:1/0"))
    assert await crawl(shelved) == in_order()


async def copy_of(redis: Redis) -> Mapping[bytes, bytes]:
    """All that Redis has."""
    return {key: await redis.dump(key) for key in await redis.keys("*")}  # type: ignore[misc]


async def go_back(bench: Bench, copy: Mapping[bytes, bytes]) -> None:
    """Redis is another process with older data; its workers are new."""
    await bench.redis.flushdb()
    for key, value in copy.items():
        await bench.redis.restore(key, 0, value)
    await bench.pretend_restart()
    bench.worker = bench.another_worker("after")
    await bench.worker.session.beat()
    await bench.advance(5_000)
    bench.feed.next = await position_of(bench.frontier, "topic", 0) or 0


async def test_redis_may_go_back(shelved: Bench, server: Redis) -> None:
    """Restores each page in order, whenever Redis goes back."""
    await carry(shelved)
    copies = [await copy_of(shelved.redis)]
    await fill(shelved)
    copies.append(await copy_of(shelved.redis))
    before = await server.dbsize()
    first = await shelved.worker.crawl_all(7)
    await carry(shelved)
    copies.append(await copy_of(shelved.redis))
    await crawl(shelved)
    await go_back(shelved, copies[2])
    assert first + await crawl(shelved) == in_order()
    await go_back(shelved, copies[1])
    assert await server.dbsize() == before
    assert await crawl(shelved) == in_order()
    await go_back(shelved, copies[0])
    await fill(shelved)
    assert await crawl(shelved) == in_order()
    await clean_up(shelved)
    assert await server.dbsize() == 0


async def test_a_frozen_monitor_changes_nothing(shelved: Bench) -> None:
    """Answers from before Redis went back, or before another took over, are refused."""
    old: list[tuple[Any, ...]] = []
    run = shelved.frontier.scripts.run

    async def noting(operation: str, *args: Any) -> Any:
        old.append((operation, *args))
        return await run(operation, *args)

    shelved.frontier.scripts.run = noting  # type: ignore[method-assign]
    copy = await copy_of(shelved.redis)
    await fill(shelved)
    await go_back(shelved, copy)
    late = [call for call in old if call[0] in {"shelved", "restocked"}]
    await fill(shelved)
    assert late
    for call in late:
        assert await run(*call) == 0
    assert await crawl(shelved) == in_order()
