"""Two workers and one book: what one has learnt of a proxy the other knows."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from functools import partial
from typing import NamedTuple

import pytest
import structlog
from redis.asyncio import Redis

from crawling.egress.local_book import LocalBook
from crawling.egress.shared_book import SharedBook
from crawlstream_frontier.egress.proxy_book import ProxyBook
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.proxy_reports import ProxyBan
from support.frontier.bench import KEYS, Bench, open_bench
from support.waiting import WaitUntil

NAMES = ("w1", "w2")


class Worker(NamedTuple):
    """A worker that follows the book."""

    book: LocalBook
    shared: SharedBook


@pytest.fixture
async def frontier(redis: Redis) -> Bench:
    """An empty one."""
    return await open_bench(redis)


@pytest.fixture
async def workers(frontier: Bench) -> AsyncIterator[list[Worker]]:
    """Two of them, for as long as the test runs."""
    found = []
    for name in NAMES:
        book = LocalBook()
        book.keep(frozenset({"p-1", "p-2"}))
        session = Frontier(frontier.redis, KEYS).book.session(name)
        found.append(Worker(book, SharedBook(session, book, is_needed=lambda: True)))
    tasks = [asyncio.ensure_future(worker.shared.follow()) for worker in found]
    yield found
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _has_heard(book: LocalBook) -> bool:
    rests = book.rests("p-2", "a") and book.rests("p-2", "b")
    return rests and book.out_until("p-1") > 0 and book.workers == len(NAMES)


async def test_workers_hear_of_each_other(
    workers: list[Worker],
    frontier: Bench,
    wait_until: WaitUntil,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """News of failures that put a proxy out together, of its rests, of an operator's bans."""
    # By chance it would be back before a worker has the news.
    monkeypatch.setattr(random, "random", lambda: 1.0)
    first, second = (worker.book for worker in workers)
    for book in (first, second):
        book.notes.used()
    for _ in range(3):
        first.failed("p-1")
        second.failed("p-1")
    second.rest("p-2", "a", 300)
    await frontier.frontier.book.ban(ProxyBan("p-2", "b", 3_600_000))
    for book in (first, second):
        await wait_until(partial(_has_heard, book))
    first.came_through("p-1", "c")
    await wait_until(lambda: second.out_until("p-1") == 0)
    assert sorted(worker.book.place for worker in workers) == [0, 1]


async def test_a_worker_goes_on_alone_without_redis_and_tells_everything_once(
    workers: list[Worker], frontier: Bench, wait_until: WaitUntil
) -> None:
    """Its own book holds meanwhile; pending news is sent when Redis is there again."""
    book = workers[0].book
    await frontier.redis.flushdb()
    with structlog.testing.capture_logs() as logs:
        book.failed("p-1", at_once=True)
        book.came_through("p-2", "a", ms=20)
        await wait_until(lambda: any(log.get("outcome") == "not_shared" for log in logs))
    assert not book.is_fit("p-1", "a")
    book.came_through("p-2", "a", ms=20)
    found = await open_bench(frontier.redis)
    reader: ProxyBook = found.frontier.book

    async def answers() -> int:
        health = await reader.health()
        return health["p-2"].answers if "p-2" in health else 0

    async def all_told() -> bool:
        return await answers() == 2

    await wait_until(all_told)
    await workers[0].shared.exchange()
    assert await answers() == 2
    assert (await reader.health())["p-1"].failed == 1
