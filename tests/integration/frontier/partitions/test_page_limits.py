"""Page limits by the scripts of partitions: seeds, stops, limits of domains, several limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from redis.asyncio import Redis

from crawlstream.model.crawl import Entry, Profile
from crawlstream.model.effects import Links, Outcome, Seed, Settle
from crawlstream.model.partitions.messages import LinkOrigin, Question, Stamp, Taken, Version
from crawlstream.wire.stored import encode_entry
from crawlstream_frontier.codec.link_batch import LinkBatch
from crawlstream_frontier.codec.link_records import pack_links, read_links
from crawlstream_frontier.partitions.credit_transfers import CreditTransfers
from crawlstream_frontier.partitions.frontiers import Frontiers, RedisServer
from support.frontier.bench import fingerprint
from support.partitions.real import LINKS, PRIORITY
from support.partitions.two import Two, open_two

pytest_plugins = ("support.frontier.fixtures",)
pytestmark = pytest.mark.usefixtures("still")


@pytest.fixture
async def limited(redis: Redis) -> Limited:
    """Two partitions with nothing in them."""
    two = await open_two(redis)
    return Limited(two, redis)


class Limited:
    """Partitions of a crawl with a page limit, in a line a call."""

    def __init__(self, two: Two, redis: Redis) -> None:
        self.two = two
        self.redis: Any = redis
        server = RedisServer(name="redis", redis=redis, waiting=redis)
        self.credits = CreditTransfers(Frontiers(two.partitions, [server]))
        self._offset = 0
        self._next_link = 0

    def seed(self, place: int, url: str, *, max_pages: int) -> Seed:
        """A seed of a domain of a partition, at the next offset."""
        domain = self._domain(place)
        offset, self._offset = self._offset, self._offset + 1
        return Seed(
            offset=offset,
            timestamp_ms=offset,
            crawl=self.two.crawl,
            domain=domain,
            priority=PRIORITY,
            fingerprint=fingerprint(url),
            entry=encode_entry(Entry(url=f"http://{domain}/{url}")),
            profile=Profile(maxdepth=9, max_pages=max_pages),
        )

    async def stamp(self, *seeds: Seed) -> dict[int, Stamp]:
        """Have the coordinator enroll them."""
        start = seeds[0].offset
        batch = replace(self.two.batch(0, 0), start=start, next=seeds[-1].offset + 1, records=seeds)
        return dict((await self.two.parts[0].coordinator.enroll(batch)).stamps)

    async def take(self, place: int, *seeds: Seed) -> Taken:
        """Enroll seeds, and let a partition take them, with credits if it needs any."""
        stamps = await self.stamp(*seeds)
        reading = self.two.parts[place].reading
        start = await reading.begin("incoming", 0, 0)
        batch = replace(
            self.two.batch(0, 0),
            start=min(start, seeds[0].offset),
            next=seeds[-1].offset + 1,
            records=seeds,
        )
        while (taken := await reading.take(batch, stamps)).short:
            assert taken.short == self.two.context(0)
            assert any(await self.credits.draw(place, taken.short))
        return taken

    def _domain(self, place: int) -> str:
        names = (f"d{n}.example" for n in range(999))
        return next(name for name in names if self.two.partitions.of(name) == place)

    def links(self, place: int, paths: Sequence[str]) -> Links:
        """Links to pages of a partition."""
        domain = self._domain(place)
        urls = [f"http://{domain}/{path}" for path in paths]
        return Links(
            domain=domain,
            priority=PRIORITY,
            fingerprints=[*map(fingerprint, urls)],
            entries=[encode_entry(Entry(url=url)) for url in urls],
        )

    async def find(
        self, place: int, *paths: str, limit: int | None, of_domain: int | None = None
    ) -> None:
        """Let a partition apply a record of links for each."""
        two = self.two
        origin = LinkOrigin(
            context=two.context(0),
            version=Version(1, 1),
            spiderid="link",
            profile="0" * 16,
            domain_max_pages=of_domain,
            max_pages=limit,
        )
        reading = two.parts[place].reading
        for path in paths:
            offset = await reading.begin(LINKS, place, 0)
            (value,) = pack_links(origin, [self.links(place, [path])])
            batch = LinkBatch(
                topic_id=LINKS,
                kafka_partition=place,
                start=offset,
                next=offset + 1,
                records=[read_links(offset, value)],
            )
            await reading.apply(batch)

    async def waiting(self, place: int) -> int:
        """Links in limbo."""
        return int(await self.redis.llen(self.two.parts[place].keys.tag + "limbo:1"))

    async def carry(self, place: int) -> None:
        """Credits for all that waits in a partition."""
        assert (await self.credits.draw(place, self.two.context(0))).is_all

    async def ledger(self, place: int, generation: int = 0) -> dict[str, int]:
        """The counters of a partition."""
        look = await self.two.parts[place].contexts.look([self.two.context(generation)])
        return dict(look.reports[0].ledger)


async def test_seeds_of_all_partitions_share_a_limit(limited: Limited) -> None:
    """Links beyond it are refused, and counted, as with one partition."""
    first = [limited.seed(0, f"{n}", max_pages=3) for n in range(2)]
    assert not (await limited.take(0, *first)).refused
    second = [limited.seed(1, f"{n}", max_pages=3) for n in range(2)]
    assert (await limited.take(1, *second)).refused == {3: "max_pages"}
    assert (await limited.ledger(0))["admitted"] == 2
    ledger = await limited.ledger(1)
    assert (ledger["admitted"], ledger["z:max_pages"]) == (1, 1)


async def test_a_refusal_is_answered_until_it_was_told(limited: Limited) -> None:
    """Every call that begins before it gets it; a caller that restarts reads again from there."""
    seeds = [limited.seed(0, f"{n}", max_pages=1) for n in range(2)]
    for _ in range(3):
        assert (await limited.take(0, *seeds)).refused == {1: "max_pages"}
    reading = limited.two.parts[0].reading
    assert await reading.begin("incoming", 0, 0) == 1
    later = replace(limited.two.batch(0, 0), start=2, next=2, records=())
    assert not (await reading.take(later, {})).refused
    assert await reading.begin("incoming", 0, 0) == 2
    assert (await limited.ledger(0))["z:max_pages"] == 1


async def test_what_waits_is_refused_with_its_generation(limited: Limited) -> None:
    """A stop: the next generation begins with a new account, and all of the limit."""
    await limited.take(0, limited.seed(0, "0", max_pages=2))
    await limited.find(1, "a", "b", "c", limit=2)
    two = limited.two
    assert await limited.waiting(1) == 2
    stop = two.stop(1)
    batch = replace(two.batch(0, 0), start=1, next=2, records=[stop])
    note = (await two.parts[0].coordinator.enroll(batch)).note
    assert note is not None
    await two.parts[0].coordinator.enroll(batch, {1: note})
    await two.tell()
    assert not await limited.redis.keys("*limbo*")
    assert await limited.redis.hgetall(two.parts[0].keys.tag + "credits") == {}
    ended = await limited.redis.hgetall(two.parts[1].keys.tag + "x:1")
    assert (ended[b"z:ended_run"], ended[b"z:max_pages"]) == (b"2", b"1")


async def test_more_than_could_enter_does_not_wait(limited: Limited) -> None:
    """A link that comes twice waits once; links beyond the limit of their domain take no room."""
    await limited.find(1, "a", "b", "a", "c", limit=9, of_domain=2)
    assert await limited.waiting(1) == 2
    await limited.carry(1)
    ledger = await limited.ledger(1)
    assert ledger["admitted"] == 2
    assert (ledger["z:duplicate"], ledger["z:domain_max_pages"]) == (1, 1)
    assert not await limited.redis.keys("*limbo*")


async def test_each_link_is_under_the_limit_of_its_seed(limited: Limited) -> None:
    """A credit that was granted under a higher limit serves none under a lower one."""
    await limited.find(0, *"abcdefg", limit=100)
    await limited.carry(0)
    await limited.find(1, *"abc", limit=8)
    await limited.carry(1)
    assert (await limited.ledger(0))["admitted"] == 7
    ledger = await limited.ledger(1)
    assert (ledger["admitted"], ledger["z:max_pages"]) == (1, 2)
    await limited.find(0, "h", limit=8)
    await limited.carry(0)
    assert (await limited.ledger(0))["z:max_pages"] == 1
    await limited.find(0, "h", limit=100)
    await limited.carry(0)
    assert (await limited.ledger(0))["admitted"] == 8


async def test_links_that_are_put_ahead_of_their_page_are_met(limited: Limited) -> None:
    """The answer to the page itself says that some wait."""
    two = limited.two
    seed = limited.seed(0, "0", max_pages=3)
    await limited.take(0, seed)
    await two.confirm(0)
    await two.parts[0].advance()
    session = two.parts[0].frontier.session("worker", "link")
    (lease,) = (await session.exchange(want=1)).leases
    links = limited.links(0, [f"{n}" for n in range(1, 1_003)])
    settle = Settle(token=lease.token, outcome=Outcome.DONE, reason="2xx", links=[links])
    answer = await session.exchange(settles=[settle])
    assert answer.unconfirmed == [Question(two.context(0), is_of_credits=True)]
    await limited.carry(0)
    assert (await limited.ledger(0))["admitted"] == 3


async def test_a_run_with_links_that_wait_is_not_over(limited: Limited) -> None:
    """A look finds it, and that the links need credits."""
    await limited.find(1, "a", limit=1)
    (report,) = (await limited.two.parts[1].contexts.look([limited.two.context(0)])).reports
    assert (report.is_idle, report.is_short) == (False, True)


async def test_pages_without_a_limit_count_for_those_with_one(limited: Limited) -> None:
    """Counts pages without a limit as spent, also those of a moved crawl."""
    await limited.find(0, *"abc", limit=None)
    await limited.find(1, *"abc", limit=5)
    await limited.carry(1)
    ledger = await limited.ledger(1)
    assert (ledger["admitted"], ledger["z:max_pages"]) == (2, 1)
