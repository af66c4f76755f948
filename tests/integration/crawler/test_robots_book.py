"""Notes about robots.txt files in a Redis that is full, or that they would fill."""

from __future__ import annotations

import os
from asyncio import gather
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis
from scrapy import Request
from scrapy.http import Response

from crawling.background import Tasks
from crawling.lease.leases import Leases
from crawling.page.scrapy_request import PAGE
from crawling.robots.elsewhere import Elsewhere
from crawling.robots.robots_book import RobotsBook, RobotsNote, file_of, rules_note
from crawlstream.errors import RedisUnavailable
from crawlstream.keys import FrontierKeys
from crawlstream.model.throttle_table import Reaction, SiteReaction
from crawlstream_frontier.scripts import Scripts
from crawlstream_frontier.worker.session import Reservation
from support.crawler.leases import lease
from support.session.own import own_redis_server
from support.spilling import filled
from support.waiting import WaitUntil

__all__ = ["own_redis_server"]

KEYS = FrontierKeys()
SHARE = 0.05
OPEN = RobotsNote(b"open", 3_600)


@pytest.fixture
async def book(redis: Redis) -> AsyncIterator[RobotsBook]:
    """Settings of a Redis with a limit of 40 MiB."""
    await redis.config_set("maxmemory", 40 << 20)
    scripts = Scripts(redis, KEYS)
    yield RobotsBook(lambda _: scripts)
    await redis.config_set("maxmemory", 0)


def text(size: int) -> RobotsNote:
    """A file that cannot be packed."""
    return rules_note(os.urandom(size))


async def words(book: RobotsBook, *origins: str) -> list[bytes]:
    """Known files of these hosts."""
    return [note.word for note in await book.read(origins)]


async def test_a_full_redis_takes_notes(book: RobotsBook, redis: Redis) -> None:
    """Pages of an unknown host can be fetched, or the Redis would never drain."""
    async with filled(redis, 1.5):
        assert await book.claim("http://a:80", None)
        assert not await book.claim("http://a:80", None)
        assert await words(book, "http://a:80") == [b"fetching"]
        await book.write("http://a:80", text(1_000))
        assert await words(book, "http://a:80") == [b"rules"]
        await book.forget("http://a:80")
        assert await words(book, "http://a:80") == [b""]


@pytest.mark.parametrize("error", [RedisUnavailable("away"), ValueError("unforeseen")])
async def test_a_file_of_another_site_is_kept_though_its_reaction_is_not(
    book: RobotsBook, wait_until: WaitUntil, error: Exception
) -> None:
    """The report of the reaction is repeated while Redis is away; the file does not depend on it.

    Without its note, the site would be asked for the file again.
    """
    told: list[SiteReaction] = []
    refusals = iter([error] * 2)

    class Calls:
        robots = book

        async def reserve(self, host: str, **_: object) -> Reservation:
            """Allow the request now."""
            return Reservation(host, 0, 0, 1, "", 0)

        async def reacted(self, _: Reservation, reaction: SiteReaction) -> None:
            """Fail twice."""
            if refusal := next(refusals, None):
                raise refusal
            told.append(reaction)

        async def beat(self, _: int) -> int:
            """Answer as the same Redis."""
            return 1

    async def fetch(request: Request) -> Response:
        request.meta[PAGE].reaction = SiteReaction(Reaction.ANSWER)
        return Response(request.url, body=b"User-agent: *")

    leases = Leases(4, lambda: None)
    leases.note_answer(0, leases.clock(), 1)
    page = leases.admit(lease())
    tasks = Tasks(lambda: None)
    elsewhere = Elsewhere(Calls(), leases, tasks, fetch=fetch, agent="bot")
    moved = RobotsNote(b"moved 1 http://b:80/robots.txt", 60)
    assert (await elsewhere.find(page, moved)).word == b"fetching"

    async def is_kept() -> bool:
        return await words(book, file_of(moved.target[1])) == [b"rules"]

    await wait_until(is_kept)
    await tasks.finish(10)
    assert bool(told) == isinstance(error, RedisUnavailable)


async def test_one_of_many_claims(book: RobotsBook) -> None:
    """Lets only one of those that saw the same note claim the file."""
    later = RobotsNote(b"later 1", 10)
    await book.write("http://a:80", later)
    (seen,) = await book.read(["http://a:80"])
    assert not await book.claim("http://a:80", None)
    assert await book.claim("http://a:80", seen.raw)
    assert not await book.claim("http://a:80", seen.raw)


async def test_hosts_cannot_fill_redis_with_their_files(book: RobotsBook, redis: Redis) -> None:
    """Keeps the latest files only, however many and large they are, and all other notes."""
    await book.write("http://refuses:80", RobotsNote(b"later 1", 10))
    await book.write("http://first:80", OPEN)
    before = (await redis.info("memory"))["used_memory"]
    for number in range(40):
        await book.write(f"http://h{number}:80", text(200 * 1024))
    after = (await redis.info("memory"))["used_memory"]
    # The allocator rounds such values up by a quarter at most.
    assert after - before < 1.3 * SHARE * (40 << 20)
    found = await words(
        book, "http://refuses:80", "http://first:80", "http://h0:80", "http://h39:80"
    )
    assert found == [b"later", b"", b"", b"rules"]
    for start in range(0, 12_000, 100):
        await gather(*(book.write(f"http://o{start + i}:80", OPEN) for i in range(100)))
    assert await words(book, "http://h39:80", "http://o0:80") == [b"", b""]
    assert len(await redis.keys("*robots:http://o*")) > 8_000
    sizes = [int(one.split()[0]) for one in await redis.lrange("{cs0}robots", 0, -1)]
    assert sum(sizes) == int(await redis.get("{cs0}robots_bytes") or 0)
    assert await redis.pttl("{cs0}robots") > 0, "what is known of the copies outlives them all"


async def test_a_file_larger_than_the_share_is_kept_alone(book: RobotsBook, redis: Redis) -> None:
    """The others go for it, and it goes for the next one."""
    await redis.config_set("maxmemory", 4 << 20)
    for number in range(3):
        await book.write(f"http://h{number}:80", text(400 * 1024))
        assert await words(book, f"http://h{number}:80") == [b"rules"]
    assert len(await redis.keys("*robots:*")) == 1


async def test_a_note_that_is_written_again_stays(book: RobotsBook, redis: Redis) -> None:
    """It counts twice until its first place is the oldest one, and never less than it takes."""
    for _ in range(30):
        await book.write("http://a:80", text(100 * 1024))
    assert await words(book, "http://a:80") == [b"rules"]
    assert int(await redis.get("{cs0}robots_bytes") or 0) <= SHARE * (40 << 20)
