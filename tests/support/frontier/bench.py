"""A frontier under test: seeds, links and workers in a line each, and a clock that can be moved."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast
from urllib.parse import quote

from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster

from crawlstream.errors import InvalidUrl
from crawlstream.keys import FrontierKeys
from crawlstream.model import url as urls
from crawlstream.model.crawl import CrawlKey, Entry, Lease, Profile
from crawlstream.model.effects import (
    Command,
    Effect,
    ExchangeResult,
    IntakeBatch,
    IntakeResult,
    Links,
    Loss,
    OutboxRecord,
    Outcome,
    Release,
    Requeue,
    ScheduleChange,
    Seed,
    SentRequest,
    Settle,
)
from crawlstream.model.recurring.schedule import Do, Occasion, Schedule
from crawlstream.model.state import CrawlState
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from crawlstream.model.web.throttle_groups import Group, Groups
from crawlstream.wire.stored import decode_entry, encode_entry
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.inspector import Inspector
from crawlstream_frontier.link_rules.host_budgets import Standing
from crawlstream_frontier.maintenance import FrontierLimits, MaintenanceResult
from crawlstream_frontier.scrapes.waiting_urls import WaitingPages
from crawlstream_frontier.shelves.shelf import Shelf
from crawlstream_frontier.shelves.stocking import Stocking
from crawlstream_frontier.streams import Streams
from crawlstream_frontier.worker.session import WorkerSession

KEYS = FrontierKeys()
CRAWL = CrawlKey("link", "app", "crawl")
WIDE_OPEN = ThrottleRule(hits=1_000_000, window_s=1, moderated=False, concurrency=1_000_000)
GRACE_MS = 3_000
DEDUPE_MS = 60_000


def fingerprint(url: str) -> str:
    """The product's; hosts that no URL may have are made part of the path."""
    try:
        return urls.fingerprint(url.replace("//::1", "//[::1]"))
    except InvalidUrl:
        return urls.fingerprint("http://odd/" + quote(url))


def links(
    domain: str,
    paths: Iterable[object],
    *,
    priority: int = 40,
    spiderid: str | None = None,
    counts: bool = True,
    linked: int = 0,
    standing: str = "",
    depth: int = 1,
) -> Links:
    """Links to ``http://<domain>/<path>``."""
    urls = [f"http://{domain}/{path}" for path in paths]
    return Links(
        domain=domain,
        priority=priority,
        spiderid=spiderid,
        counts=counts,
        linked=linked,
        standing=standing,
        fingerprints=[fingerprint(url) for url in urls],
        entries=[encode_entry(Entry(url=url, depth=depth)) for url in urls],
    )


def standing_to(lease: Lease, domain: str) -> str:
    """Return what links of a leased page to a domain say, in a crawl with a host budget."""
    standing = Standing.of(lease)
    return standing.to(domain) if standing else ""


def redirect(url: str, salt: str) -> Links:
    """Return the target of a seed's redirect, with the identity that a crawler gives it."""
    entry = Entry(url=f"http://{url}", origin="in-0-0", salt=salt)
    identity = urls.fingerprint(entry.url, salt=salt)
    return Links(
        domain=url.split("/", 1)[0],
        priority=50,
        counts=False,
        fingerprints=[f"{identity} {urls.fingerprint(entry.url)}"],
        entries=[encode_entry(entry)],
    )


@dataclass
class Feed:
    """A Kafka partition as the frontier sees it: records with offsets, in batches."""

    frontier: Frontier
    topic_id: str = "topic"
    partition: int = 0
    next: int = 0
    records: dict[int, Effect] = field(default_factory=dict)
    """By offset, as Kafka keeps them."""

    def seed(
        self,
        url: str,
        *,
        crawl: CrawlKey = CRAWL,
        priority: int = 50,
        expires: int = 0,
        not_before: float = 0,
        timestamp_ms: int | None = None,
        occasion: Occasion | None = None,
        remember: int | None = None,
        **profile: Any,
    ) -> Seed:
        """A crawl request for ``<domain>/<path>``, at the next offset."""
        budgets = profile.pop("budgets", None)
        self.next += 1
        return Seed(
            offset=self.next - 1,
            timestamp_ms=int(time.time() * 1000) if timestamp_ms is None else timestamp_ms,
            crawl=crawl,
            domain=url.split("/", 1)[0],
            priority=priority,
            fingerprint=fingerprint(f"http://{url}"),
            entry=encode_entry(Entry(url=f"http://{url}", origin=f"in-0-{self.next - 1}")),
            profile=Profile(**profile),
            expires=expires,
            not_before=not_before,
            occasion=occasion,
            remember=remember,
            budgets=budgets,
        )

    def schedule(self, do: Do, schedule: Schedule, *, most: int = 1_000) -> ScheduleChange:
        """A request about a schedule, at the next offset."""
        self.next += 1
        return ScheduleChange(
            offset=self.next - 1,
            timestamp_ms=int(time.time() * 1000),
            appid=schedule.appid,
            name=schedule.name,
            do=do,
            request=b'{"uuid": "u"}',
            schedule=schedule if do == "set" else None,
            most=most,
        )

    def command(
        self,
        name: str,
        crawl: CrawlKey | None = CRAWL,
        *,
        timestamp_ms: int | None = None,
        priority: int | None = None,
        until: int = 0,
        occasion: Occasion | None = None,
    ) -> Command:
        """An action request, at the next offset."""
        self.next += 1
        return Command(
            offset=self.next - 1,
            timestamp_ms=int(time.time() * 1000) if timestamp_ms is None else timestamp_ms,
            name=name,
            request=b'{"uuid": "u"}',
            crawl=crawl,
            priority=priority,
            until=until,
            appid=crawl.appid if crawl else "",
            occasion=occasion,
        )

    def batch(self, *records: Effect) -> IntakeBatch:
        """The last records that were made, up to the next offset."""
        self.records.update((record.offset, record) for record in records)
        return IntakeBatch(
            topic_id=self.topic_id,
            kafka_partition=self.partition,
            start=records[0].offset if records else self.next,
            next=self.next,
            records=records,
        )

    async def place(self) -> None:
        """Let the frontier know that the partition begins with its first record, unless it does."""
        loss = Loss(topic_id=self.topic_id, kafka_partition=self.partition, offset=0)
        await self.frontier.positions.restore(loss)

    async def put(self, *records: Effect) -> IntakeResult:
        """Let the last records that were made take effect."""
        return await self.frontier.intake.apply(self.batch(*records))

    async def read_again(self) -> IntakeResult | None:
        """Read what the frontier wants once more, up to the position; None: it wants nothing."""
        position = await position_of(self.frontier, self.topic_id, self.partition)
        positions = self.frontier.positions
        begin = await positions.begin(self.topic_id, self.partition, position or 0)
        if not position or begin == position:
            return None
        records = [self.records[at] for at in sorted(self.records) if begin <= at < position]
        return await self.frontier.intake.apply(
            IntakeBatch(
                topic_id=self.topic_id,
                kafka_partition=self.partition,
                start=begin,
                next=position,
                records=records,
            )
        )

    async def say(self, name: str, crawl: CrawlKey | None = CRAWL, **aim: Any) -> IntakeResult:
        """Feed one action request."""
        return await self.put(self.command(name, crawl, **aim))

    async def seeds(self, *urls: str, **how: Any) -> IntakeResult:
        """Feed these URLs."""
        return await self.put(*(self.seed(url, **how) for url in urls))


@dataclass
class Worker:
    """A worker that answers for its leases; every method is one exchange."""

    session: WorkerSession
    name: str = "w1"
    spiderid: str = "link"
    leases: dict[str, Lease] = field(default_factory=dict)

    async def exchange(self, **what: Any) -> ExchangeResult:
        """Any exchange."""
        answer = await self.session.exchange(**what)
        self.leases.update((lease.token, lease) for lease in (*answer.leases, *answer.spares))
        return answer

    async def lease(self, want: int = 1) -> list[Lease]:
        """Up to ``want`` entries."""
        return list((await self.exchange(want=want)).leases)

    async def urls(self, want: int = 100) -> list[str]:
        """Up to ``want`` entries, by ``<domain>/<path>``."""
        return [url_of(lease) for lease in await self.lease(want)]

    async def settle(
        self,
        *leases: Lease,
        links: Sequence[Links] = (),
        outcome: Outcome = Outcome.DONE,
        **more: Any,
    ) -> ExchangeResult:
        """End leases; the links are those of each."""
        reason = {Outcome.DONE: "2xx", Outcome.FAILED: "dns"}.get(outcome, "")
        settles = [
            Settle(token=lease.token, outcome=outcome, reason=reason, links=links, **more)
            for lease in leases
        ]
        return await self._end(leases, settles=settles)

    async def release(self, *leases: Lease, **how: Any) -> ExchangeResult:
        """Release leases, unmarked."""
        releases = [Release(token=lease.token, **how) for lease in leases]
        return await self._end(leases, releases=releases)

    async def requeue(self, *leases: Lease, **how: Any) -> ExchangeResult:
        """Release leases because of a download outcome."""
        requeues = [Requeue(token=lease.token, **how) for lease in leases]
        return await self._end(leases, requeues=requeues)

    async def sent(
        self, *leases: Lease, after_ms: int = 0, received: bool = False
    ) -> ExchangeResult:
        """Report departures."""
        reports = [SentRequest(lease.token, after_ms, received) for lease in leases]
        return await self.exchange(sent=reports)

    async def _end(self, leases: Sequence[Lease], **what: Any) -> ExchangeResult:
        answer = await self.exchange(**what)
        for lease in leases:
            self.leases.pop(lease.token, None)
        return answer

    async def crawl_all(self, want: int = 50) -> list[str]:
        """Lease and settle until nothing is due; return the pages, in order."""
        crawled: list[str] = []
        while leases := await self.lease(want):
            crawled += map(url_of, leases)
            await self.settle(*leases)
        return crawled


@dataclass
class Bench:
    """A frontier with rules, a feed and a worker."""

    redis: Any
    """A client; redis-py's types do not say which of its methods are coroutines."""
    frontier: Frontier
    feed: Feed
    worker: Worker
    reader: Streams
    version: int = 1

    def limit(self, **limits: int) -> None:
        """Let these limits of the cluster apply from the next care on."""
        maintenance = self.frontier.maintenance
        maintenance._limits = replace(maintenance._limits, **limits)

    def shelve(self, shelve_from: int, shelf: Shelf | None = None) -> None:
        """Let the middle of bands go to the shelf from this length on."""
        stocking = Stocking(self.frontier.scripts, shelf, shelve_from=shelve_from, lost_after_s=0)
        self.frontier.stocking = stocking
        self.frontier.inspector = Inspector(self.frontier.scripts, stocking)
        self.frontier.waiting = WaitingPages(self.frontier.scripts, stocking)

    def another_worker(self, name: str, spiderid: str = "link") -> Worker:
        """A second process."""
        session = Frontier(self.redis, self.frontier.scripts.keys).session(name, spiderid)
        return Worker(session, name, spiderid)

    async def blame(self, dead: str, token: str = "") -> int:
        """Report, as the successor of a dead worker, the page that it was handling."""
        return await self.worker.session.blame(dead, token)

    async def another_feed(self, partition: int, topic_id: str = "topic") -> Feed:
        """A second Kafka partition."""
        feed = Feed(self.frontier, topic_id, partition)
        await feed.place()
        return feed

    async def rule(
        self,
        default: ThrottleRule = WIDE_OPEN,
        rules: dict[str, ThrottleRule] | None = None,
        blacklist: Iterable[str] = (),
        groups: Mapping[str, Group[ThrottleRule]] | Groups[ThrottleRule] | None = None,
    ) -> None:
        """Let this table rule from now on."""
        self.version += 1
        table = ThrottleTable(
            default=default,
            rules=rules or {},
            blacklist=frozenset(blacklist),
            groups=groups if isinstance(groups, Groups) else Groups(groups or {}),
            czxid=1,
            mzxid=self.version,
        )
        assert await self.frontier.rules.copy(table)

    async def advance(self, ms: int) -> None:
        """Let time pass on the frontier clock."""
        await self.redis.hincrby(self.frontier.scripts.keys.meta(), "clock", ms)

    async def clock(self) -> int:
        """The frontier clock as the last call left it."""
        return int(await self.redis.hget(self.frontier.scripts.keys.meta(), "clock") or 0)

    async def pretend_restart(self) -> None:
        """Let the next call find that Redis was restarted."""
        await self.redis.hset(self.frontier.scripts.keys.meta(), "run_id", "another")

    async def state(self, crawl: CrawlKey = CRAWL) -> CrawlState:
        """The ledger of a crawl that is known."""
        state = await self.frontier.queries.crawl_state(crawl)
        assert state is not None
        assert state.residual == 0
        return state

    async def tend(self) -> list[MaintenanceResult]:
        """Care until nothing more is due."""
        steps = [await self.frontier.maintenance.tend()]
        while steps[-1].more:
            steps.append(await self.frontier.maintenance.tend())
        return steps

    async def owed(self) -> list[OutboxRecord]:
        """Return the records of the outbox, and mark them as published."""
        owed = list(await self.reader.records(count=1000, block_ms=0))
        await self.reader.published([one.id for one in owed])
        return [one for one in owed if isinstance(one, OutboxRecord)]

    async def events(self) -> list[str]:
        """Return the kinds of the records in the outbox, in order."""
        return [one.kind for one in await self.owed()]


def url_of(lease: Lease) -> str:
    """A lease's entry as ``<domain>/<path>``."""
    return lease.entry.url.removeprefix("http://")


def entry_of(body: bytes) -> tuple[str, str | None, int]:
    """URL, as ``<domain>/<path>``, origin and depth of an entry on its way in."""
    entry = decode_entry(body)
    return entry.url.removeprefix("http://"), entry.origin, entry.depth


async def position_of(frontier: Frontier, topic_id: str, partition: int) -> int | None:
    """The next offset to apply of a Kafka partition; None before its first record."""
    return (await frontier.positions.known()).get((topic_id, partition))


async def keep_what_is_answered(redis: Redis) -> None:
    """From now to its end this Redis answers when the disk has it, so that a kill takes nothing.

    One that syncs once a second may write up to two seconds later than it answers.
    """
    await redis.config_set("appendfsync", "always")


def open_session(redis: Redis, name: str = "w1", spiderid: str = "link") -> WorkerSession:
    """The frontier as one more process uses it."""
    return Frontier(redis, KEYS).session(name, spiderid)


async def open_bench(
    redis: Redis | RedisCluster,
    default: ThrottleRule | None = WIDE_OPEN,
    *,
    keys: FrontierKeys = KEYS,
) -> Bench:
    """A frontier in an empty Redis; ``default`` None: it has no rules yet."""
    limits = FrontierLimits(finish_grace_ms=GRACE_MS, dedupe_ms=DEDUPE_MS)
    client = cast(Redis, redis)
    frontier = Frontier(client, keys, limits)
    worker = Worker(frontier.session("w1", CRAWL.spiderid))
    reader = Streams(client, keys, "reader")
    bench = Bench(redis, frontier, Feed(frontier), worker, reader)
    await bench.feed.place()
    if default is not None:
        await bench.rule(default)
    return bench


async def endings(bench: Bench) -> list[OutboxRecord]:
    """Return the outbox records of endings of runs since the last call."""
    return [
        one
        for one in await bench.owed()
        if one.kind in {"crawl_finished", "crawl_stopped", "crawl_expired"}
    ]
