"""The small frontier of the model on real scripts: partitions in one Redis, a list for each log.

Lives and versions of the model have other numbers here; the cluster knows both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any, NamedTuple

from redis.asyncio import Redis

from crawlstream.keys import Partitions
from crawlstream.model.crawl import CrawlKey, Entry, Lease, Profile
from crawlstream.model.effects import Command, IntakeBatch, Links, Outcome, Seed, Settle
from crawlstream.model.partitions.messages import ContextKey, CoordinatorMark, Label, Stamp, Version
from crawlstream.model.throttle_table import ThrottleTable
from crawlstream.wire.stored import encode_entry, encode_profile
from crawlstream_frontier.codec.entries import hash_of_profile
from crawlstream_frontier.codec.link_batch import LinkBatch
from crawlstream_frontier.codec.link_records import pack_links, read_links
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.layout import create_partitions
from crawlstream_frontier.revocation import reap_all
from crawlstream_frontier.worker.session import WorkerSession
from support.frontier.bench import WIDE_OPEN, fingerprint
from support.partitions.values import COORDINATOR, Cluster

PRIORITY = 50
INCOMING, LINKS = "incoming", "links"
PLACE = f"{INCOMING}:0"
_AGE_MS = 6_000
"""Time after a restart within which a domain may be visited."""


class Work(NamedTuple):
    """A page that a worker has leased; every lease has a worker of its own."""

    session: WorkerSession
    name: str
    lease: Lease
    generation: int


class Moment(NamedTuple):
    """Content of the disk of one partition at a time."""

    keys: dict[bytes, tuple[bytes, int]]
    holders: dict[tuple[int, str, int], str]


class Part:
    """A partition: its scripts, and the leases of its workers."""

    def __init__(self, redis: Redis, partitions: Partitions, place: int) -> None:
        self.keys = partitions.keys(place)
        self.frontier = Frontier(redis, self.keys)
        self.redis: Any = redis
        self.coordinator = self.frontier.coordinator
        self.reading = self.frontier.reading
        self.contexts = self.frontier.contexts
        self.holders: dict[tuple[int, str, int], str] = {}
        """Name of the worker by generation, URL, and the worker's number in the model."""
        self.epochs: dict[int, int] = {}
        """Epoch of Redis by its number in the model."""

    async def begin(self, first_seed: int) -> None:
        """Rules and positions; before its first seed a partition has passed all others."""
        await self.frontier.rules.copy(ThrottleTable(default=WIDE_OPEN, czxid=1, mzxid=1))
        await self.reading.begin(INCOMING, 0, first_seed)
        await self.reading.begin(LINKS, self.number, 0)
        await self.coordinator.begin(INCOMING, 0, 0)
        self.epochs[1] = await self.contexts.epoch()

    @property
    def number(self) -> int:
        """Which one it is."""
        return int(self.keys.suffix.partition(".")[0])

    async def advance(self, ms: int = _AGE_MS) -> None:
        """Let time pass on the frontier clock."""
        await self.redis.hincrby(self.keys.meta(), "clock", ms)

    async def moment(self) -> Moment:
        """All of it, as it is now."""
        names = await self.redis.keys(self.keys.tag + "*")
        async with self.redis.pipeline() as pipe:
            for name in names:
                pipe.dump(name)
                pipe.pttl(name)
            values = await pipe.execute()
        pairs = zip(values[::2], values[1::2], strict=True)
        return Moment(dict(zip(names, pairs, strict=True)), {**self.holders})

    async def go_back(self, moment: Moment | None, epoch: int) -> None:
        """Restart with what was there then; None: with what is there now."""
        if moment is not None:
            names = await self.redis.keys(self.keys.tag + "*")
            async with self.redis.pipeline() as pipe:
                pipe.delete(*names)
                for name, (value, ttl) in moment.keys.items():
                    pipe.restore(name, max(ttl, 0), value)
                await pipe.execute()
            self.holders = {**moment.holders}
        # Real restarts take longer than the second by which lives are distinguished.
        latest = max(self.epochs.values())
        await self.redis.hset(
            self.keys.meta(), mapping={"run_id": "another", "life": latest, "restart": 0}
        )
        self.epochs[epoch] = await self.contexts.epoch()
        assert self.epochs[epoch] > latest
        await self.advance()

    async def revisit(self) -> None:
        """Bring bands back into the index, as redis-monitors do."""
        while await self.frontier.scripts.run("revisit", 100):
            pass

    async def sweep(self) -> None:
        """Remove what is over, as redis-monitors do."""
        await self.frontier.scripts.run("sweep", 100)


class RealCluster:
    """Partitions, logs, and what is on its way between them."""

    def __init__(self, redis: Redis, cluster: Cluster) -> None:
        self.redis: Any = redis
        self.cluster = cluster
        self.partitions = Partitions("cs", cluster.partitions)
        self.crawl = self._crawl_at_coordinator()
        self.parts = [Part(redis, self.partitions, p) for p in range(cluster.partitions)]
        self.domains = {url: self._domain_of(url, at) for url, at in cluster.places.items()}
        self.urls = {fingerprint(f"http://{self.domains[url]}/"): url for url in self.domains}
        self.logs: list[list[bytes]] = [[] for _ in self.parts]
        self.marks: list[CoordinatorMark] = []
        self._names = count()
        self.records = [*map(self._record, range(len(cluster.incoming)))]

    async def begin(self) -> None:
        """An empty Redis gets the frontier."""
        await self.redis.flushdb()
        await create_partitions(self.redis, self.partitions)
        for place, part in enumerate(self.parts):
            await part.begin(self.cluster.next_seed(place, 0))
        coordinator = self.parts[COORDINATOR]
        assert await coordinator.coordinator.restore(coordinator.epochs[1], [])

    def _crawl_at_coordinator(self) -> CrawlKey:
        crawls = (CrawlKey("link", "app", f"crawl{n}") for n in count())
        return next(crawl for crawl in crawls if self.partitions.coordinator(crawl) == COORDINATOR)

    def _domain_of(self, url: str, place: int) -> str:
        domains = (f"{url}{n}.example" for n in count())
        return next(domain for domain in domains if self.partitions.of(domain) == place)

    def _record(self, offset: int) -> Seed | Command:
        url = self.cluster.incoming[offset]
        if url == "!":
            return Command(
                offset=offset,
                timestamp_ms=offset,
                name="stop",
                request=b"{}",
                crawl=self.crawl,
                appid="app",
            )
        (links,) = self.links(url)
        return Seed(
            offset=offset,
            timestamp_ms=offset,
            crawl=self.crawl,
            domain=self.domains[url],
            priority=PRIORITY,
            fingerprint=links.fingerprints[0],
            entry=links.entries[0],
            profile=Profile(maxdepth=9, useragent=url),
        )

    def links(self, urls: Iterable[str]) -> list[Links]:
        """Links to some pages, each of a domain of its own."""
        return [
            Links(
                domain=self.domains[url],
                priority=PRIORITY,
                fingerprints=[fingerprint(f"http://{self.domains[url]}/")],
                entries=[encode_entry(Entry(url=f"http://{self.domains[url]}/"))],
            )
            for url in sorted(urls)
        ]

    def context(self, generation: int) -> ContextKey:
        """The name of a generation."""
        return ContextKey(self.crawl, generation)

    def batch(self, start: int, end: int) -> IntakeBatch:
        """Records of `incoming`."""
        return IntakeBatch(
            topic_id=INCOMING,
            kafka_partition=0,
            start=start,
            next=end,
            records=self.records[start:end],
        )

    async def wanted(self, place: int) -> frozenset[str]:
        """Hashes of the profiles that a partition is missing."""
        part = self.parts[place]
        names = await part.redis.keys(part.keys.tag + "wanted:*")
        found = [await part.redis.smembers(name) for name in names]
        return frozenset(hash_.decode() for hashes in found for hash_ in hashes)

    async def provide(self, place: int, generation: int) -> None:
        """Send a partition these profiles, and nothing else: the version is older than any."""
        packed = [encode_profile(r.profile) for r in self.records if isinstance(r, Seed)]
        profiles = {hash_of_profile(one).encode(): one for one in packed}
        wanted = await self.wanted(place)
        label = Label(
            context=self.context(generation),
            version=Version(0, 0),
            state="ended",
            profiles={hash_: profiles[hash_] for hash_ in map(str.encode, wanted)},
        )
        contexts = self.parts[place].contexts
        await contexts.label(await contexts.epoch(), [label])

    async def take(self, place: int, offset: int, end: int, stamp: Stamp) -> None:
        """A partition takes a seed, and passes what it has nothing to do with."""
        reading = self.parts[place].reading
        start = await reading.begin(INCOMING, 0, 0)
        batch = IntakeBatch(
            topic_id=INCOMING,
            kafka_partition=0,
            start=start,
            next=end,
            records=[self.records[offset]],
        )
        await reading.take(batch, {offset: stamp})

    async def apply(self, place: int, offset: int) -> None:
        """A partition applies a record of its links."""
        record = read_links(offset, self.logs[place][offset])
        batch = LinkBatch(
            topic_id=LINKS, kafka_partition=place, start=offset, next=offset + 1, records=[record]
        )
        await self.parts[place].reading.apply(batch)

    async def lease(self, place: int) -> tuple[Work, str] | None:
        """Whatever a worker without any history is given, and its URL."""
        part, name = self.parts[place], f"w{next(self._names)}"
        await part.revisit()
        session = part.frontier.session(name, "link")
        leases = (await session.exchange(want=1)).leases
        if not leases:
            return None
        (lease,) = leases
        origin = session.origin(lease.token)
        assert origin
        assert origin.context.crawl == lease.crawl == self.crawl
        url = self.urls[fingerprint(lease.entry.url)]
        return Work(session, name, lease, origin.context.generation), url

    async def publish(self, work: Work, place: int, children: dict[int, frozenset[str]]) -> None:
        """Links to other partitions are appended to their logs."""
        origin = work.session.origin(work.lease.token)
        assert origin
        for other, urls in children.items():
            if urls and other != place:
                self.logs[other] += pack_links(origin, self.links(urls))

    async def settle(self, work: Work, own: frozenset[str], need: Sequence[int]) -> bool:
        """A page is complete; answers whether its lease was still good."""
        settle = Settle(
            token=work.lease.token,
            outcome=Outcome.DONE,
            reason="2xx",
            links=self.links(own),
            need={q: offset for q, offset in enumerate(need) if offset},
        )
        answer = await work.session.exchange(settles=[settle])
        return not answer.stale

    async def reap(self, place: int, generation: int, url: str, worker: int) -> None:
        """A worker is given up."""
        part = self.parts[place]
        name = part.holders.pop((generation, url, worker))
        assert await reap_all(part.frontier.scripts.run, name, "") == 1
