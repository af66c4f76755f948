"""Files of other sites are fetched by idle workers, too, and once for all pages that need them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from redis.asyncio import Redis
from scrapy import Request
from scrapy.http import Response

from crawling.background import Tasks
from crawling.lease.last_contact import CONTACT_WITHIN_S
from crawling.lease.leases import Leases
from crawling.page.scrapy_request import PAGE
from crawling.robots.elsewhere import Elsewhere
from crawling.robots.further import FurtherRobots
from crawling.robots.robots_book import RobotsBook, RobotsNote
from crawlstream.keys import FrontierKeys
from crawlstream_frontier.scripts import Scripts
from crawlstream_frontier.worker.session import Reservation
from support.crawler.leases import lease
from support.waiting import WaitUntil

IMAGE = "http://cdn.example/1.png"


class CountedBook(RobotsBook):
    """Counts how often it is read."""

    reads = 0

    async def read(self, origins: Sequence[str]) -> list[RobotsNote]:
        """Return notes."""
        self.reads += 1
        return await super().read(origins)


class Worker:
    """A worker that has had no contact with Redis for some seconds, and pages of other sites."""

    def __init__(self, redis: Redis, *, epochs: Sequence[int]) -> None:
        """``epochs``: those by which Redis answers."""
        scripts = Scripts(redis, FrontierKeys())
        self.robots = self.book = CountedBook(lambda _: scripts)
        self.leases = Leases(4, lambda: None)
        self.leases.note_answer(0, self.leases.clock(), 1)
        self.leases.of(0).contact._heard_at -= 3
        self._epochs = iter(epochs)
        self.requests: list[str] = []
        self.beats = 0
        elsewhere = Elsewhere(self, self.leases, Tasks(lambda: None), fetch=self.fetch, agent="bot")
        self.further = FurtherRobots(self, elsewhere, self)  # type: ignore[arg-type]

    def must_obey(self, _: object) -> bool:
        """Obey robots.txt."""
        return True

    async def reserve(self, host: str, **_: object) -> Reservation:
        """Allow the request now."""
        return Reservation(host, 0, 0, 1, "", 0)

    async def reacted(self, *_: object) -> None:
        """Take a report."""

    async def beat(self, _: int) -> int:
        """Answer."""
        self.beats += 1
        return next(self._epochs)

    async def fetch(self, request: Request) -> Response:
        """Return a file, if its request may leave."""
        assert self.leases.may_send(request.meta[PAGE], CONTACT_WITHIN_S)
        self.requests.append(request.url)
        return Response(request.url, body=b"User-agent: *\nDisallow: /2.png")


async def test_a_worker_without_contact_renews_it(redis: Redis) -> None:
    """It sends the request that a site has reserved, rather than let a minute pass."""
    worker = Worker(redis, epochs=[1])
    page = worker.leases.admit(lease())
    assert await worker.further.learn(page, IMAGE)
    assert worker.requests == ["http://cdn.example/robots.txt"]


async def test_a_redis_of_another_epoch_has_reserved_nothing(
    redis: Redis, wait_until: WaitUntil
) -> None:
    """No request leaves that only a Redis has allowed which is no more."""
    worker = Worker(redis, epochs=[2])
    page = worker.leases.admit(lease())
    look = asyncio.ensure_future(worker.further.learn(page, IMAGE))
    await wait_until(lambda: worker.beats)
    look.cancel()

    async def is_forgotten() -> bool:
        (note,) = await worker.book.read(["http://cdn.example:80"])
        return not note.word

    await wait_until(is_forgotten)
    assert worker.requests == []


async def test_one_look_serves_all_pages(redis: Redis) -> None:
    """They read the note of a file together; that one of them ends does not end it."""
    worker = Worker(redis, epochs=[1])
    pages = [worker.leases.admit(lease(token=f"1-{n}")) for n in range(20)]
    first, *others = [asyncio.ensure_future(worker.further.learn(page, IMAGE)) for page in pages]
    await asyncio.sleep(0)
    first.cancel()
    assert await asyncio.gather(*others) == [True] * 19
    assert first.cancelled()
    assert worker.book.reads < 10
