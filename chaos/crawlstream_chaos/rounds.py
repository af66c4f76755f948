"""A round: a crawl is fed, the nemesis strikes while its pages wait, and the auditor judges.

Steps of a round: the sites' rates are lowered so that pages wait; the crawl is fed; faults are
injected; the rates are raised, and the crawl runs to its end; when every record was read, the laws
are checked against the observations.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import psutil
from redis.exceptions import RedisError

from crawlstream.errors import CrawlstreamError
from crawlstream.model.state import FrontierState
from crawlstream.tasks import beside, wait_until
from crawlstream_chaos.cluster import DEPTH, QUICK, ChaosCluster
from crawlstream_chaos.facts.facts import (
    APP,
    RESULTS,
    ByProxies,
    Facts,
    FedCrawl,
    LedgerSample,
    Strike,
    TopicRecord,
    Violation,
    has_ended,
    repeats,
)
from crawlstream_chaos.facts.scrapes import SeenScrapes
from crawlstream_chaos.facts.trace_collector import SeenSpan
from crawlstream_chaos.faults import Fault, FaultContext, FaultEffect, leased
from crawlstream_chaos.laws.auditor import audit
from crawlstream_chaos.laws.invariants import check
from crawlstream_chaos.laws.traces import all_traced
from crawlstream_chaos.purse_watch import PurseWatch

_SAMPLE_S = 0.5
_END_S = 300
"""Seconds within which a crawl ends after the last strike."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """Size of the cluster's data after a round."""

    keys: int
    """Keys in Redis, without those that expire."""
    redis_bytes: int
    rss_bytes: Mapping[str, int]
    """Memory of the largest process of each kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundResult:
    """Result of a round."""

    scenario: str
    seed: int
    seconds: float
    facts: Facts
    violations: Sequence[Violation]
    footprint: Footprint

    @property
    def landed(self) -> Counter[str]:
        """Faults that struck while pages were queued or in flight, by their names."""
        return Counter(strike.fault for strike in self.facts.strikes if strike.was_pending)

    @property
    def pages(self) -> int:
        """Different pages that came."""
        return len(results(self.facts)) - self.repeated

    @property
    def repeated(self) -> int:
        """Results that had come before."""
        return len(repeats(self.facts))


def has_pages(state: FrontierState) -> bool:
    """Return whether pages are in flight or queued; if Redis was full, they are in Kafka."""
    return state.queued + state.delayed + state.held + state.spilled > 0


def results(facts: Facts) -> Sequence[TopicRecord]:
    """All results, repeats included."""
    return [record for record in facts.records if record.topic == RESULTS]


def rate_for(round_: Round) -> float:
    """Requests a host and second with which the web lasts about as long as the round."""
    web = round_.cluster.web
    return min(QUICK, len(web.pages) / len(web.hosts) / round_.seconds)


@dataclass(slots=True)
class Round:
    """Tools of scenarios: feed, query, strike."""

    cluster: ChaosCluster
    name: str
    seed: int
    seconds: float
    """For how long pages shall be waiting."""
    pause_s: tuple[float, float] = (0.5, 5.0)
    """Between two faults, at random."""
    is_long: bool = False
    say: Say = lambda _: None
    fed: list[FedCrawl] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)
    strikes: list[Strike] = field(default_factory=list)
    samples: list[LedgerSample] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    pool: str = ""
    """The pool of proxies that every page has to come through."""
    by_proxies: ByProxies = field(default_factory=ByProxies)
    render: int = 0
    """Further requests that a page may bring; above 0, browsers make all pages."""
    watch: PurseWatch | None = None
    """Looks at the purse that pays for all crawls."""
    scrapes: SeenScrapes | None = None
    """Clients that have scraped during the script."""
    fields: Mapping[str, object] = field(default_factory=dict)
    """Fields of every crawl request."""

    @property
    def context(self) -> FaultContext:
        """For the faults of one nemesis."""
        random = Random(self.seed + len(self.strikes))
        crawls = [fed.key for fed in self.fed]
        return FaultContext(self.cluster, random, self.is_long, crawls)

    @property
    def expected(self) -> int:
        """Pages that must come."""
        return sum(len(fed.delivered) for fed in self.fed)

    @property
    def came(self) -> int:
        """Results so far."""
        return sum(len(self.cluster.recorder.results(fed.crawlid)) for fed in self.fed)

    # Feeding and asking.

    async def feed(self, fed: FedCrawl, *urls: str, **fields: object) -> None:
        """Feed the seeds of a crawl."""
        if fed not in self.fed:
            self.fed.append(fed)
        name = {"appid": APP, "spiderid": fed.spiderid, "crawlid": fed.crawlid, **fields}
        requests = [{"url": url, **name, **self.fields} for url in urls]
        await asyncio.to_thread(self.cluster.recorder.feed, *requests)

    def crawl_of(self, name: str, urls: Sequence[str]) -> FedCrawl:
        """A crawl of these pages and no others."""
        crawlid = f"{self.name}-{name}-{self.cluster.web.port}"
        return FedCrawl(crawlid=crawlid, delivered=dict.fromkeys(urls, 200))

    async def crawls_of_partitions(self, name: str) -> Sequence[tuple[int, FedCrawl]]:
        """Two crawls of a few seeds for each partition of ``incoming``, after its number."""
        recorder, urls = self.cluster.recorder, self.cluster.plain_urls()[:5]
        partitions = await asyncio.to_thread(recorder.partitions)
        left = dict.fromkeys(partitions, 2)
        found: list[tuple[int, FedCrawl]] = []
        numbers = itertools.count()
        while any(left.values()):
            fed = self.crawl_of(f"{name}-{next(numbers)}", urls)
            partition = recorder.partition_of(fed.crawlid, partitions)
            if left[partition]:
                left[partition] -= 1
                found.append((partition, fed))
        return found

    async def feed_front_page(self) -> None:
        """Feed one seed, from which the whole web is found."""
        fed = self.cluster.fed(f"{self.name}-{self.cluster.web.port}")
        await self.feed(fed, self.cluster.web.seed_url, maxdepth=DEPTH)

    async def ask(self, fed: FedCrawl, action: str) -> str:
        """Ask something about a crawl; the id of the question."""
        request = {"action": action, "appid": APP, "spiderid": fed.spiderid}
        uuid = await asyncio.to_thread(
            lambda: self.cluster.recorder.feed_request(crawlid=fed.crawlid, **request)
        )
        self.asked.add(uuid)
        return uuid

    # Striking.

    def is_over(self) -> bool:
        """Return whether every crawl has ended."""
        return all(map(self._has_ended, self.fed))

    def _has_ended(self, fed: FedCrawl) -> bool:
        return has_ended(fed, self.cluster.recorder.crawl(fed.crawlid))

    async def strike(self, fault: Fault, context: FaultContext) -> Strike:
        """Do one fault, and note it."""
        was_pending = await self._is_pending()
        at = time.monotonic()
        effect: FaultEffect = await fault.inject(context)
        in_flight = 0
        if effect.in_flight is not None:
            # While it lasted, more pages may have been leased.
            in_flight = max(effect.in_flight, await leased(context))
        strike = Strike(
            fault=fault.name,
            target=effect.target,
            at=at * 1000,
            seconds=time.monotonic() - at,
            was_pending=was_pending and effect.has_struck and not self.is_over(),
            in_flight=in_flight,
            began_again=fault.began_again,
        )
        self.strikes.append(strike)
        self.say(f"{fault.name}: {effect.target}")
        return strike

    async def _is_pending(self) -> bool:
        """Return whether pages are queued or in flight, or are still to be read again."""
        state = await self.cluster.state()
        if state is None or not state.crawls:
            return not self.is_over()
        return has_pages(state)

    async def play(self, script: Callable[[Round], Awaitable[None]], *, rate: float) -> RoundResult:
        """Run the script while the sites are slow, then let everything end, and judge.

        ``rate``: requests a host and second until the script is done.
        """
        async with beside(self._sample()):
            async with self.cluster.slowly(rate):
                await script(self)
            for fed in self.fed:
                await self._ended(fed)
            await wait_until(self._all_read, timeout_s=60, every_s=0.2)
            await self._all_stored()
            records = [r for fed in self.fed for r in self.cluster.recorder.crawl(fed.crawlid)]
            await all_traced(records, self.strikes, partial(spans_of, self.cluster))
        facts = await self._facts()
        outcome = RoundResult(
            scenario=self.name,
            seed=self.seed,
            seconds=time.monotonic() - self.began,
            facts=facts,
            violations=audit(facts),
            footprint=await footprint(self.cluster),
        )
        self.cluster.collector.forget()
        for fed in self.fed:
            self.cluster.recorder.forget(fed.crawlid)
        for reader, stored in zip(self.cluster.stores, facts.stores, strict=True):
            reader.forget(stored)
        return outcome

    async def _ended(self, fed: FedCrawl) -> None:
        """Wait for its ending, as long as any page may take; the auditor reports if none comes."""
        with suppress(TimeoutError):
            await wait_until(partial(self._has_ended, fed), timeout_s=_END_S)
            await self.cluster.recorder.ended(fed.crawlid)

    def _all_read(self) -> bool:
        return self.cluster.recorder.has_read(self.cluster.logs.ends())

    async def _all_stored(self) -> None:
        """Wait until pipelines have reported every crawl; the auditor reports missing ones."""

        def is_stored() -> bool:
            ends = self._source()
            return self._is_told() and all(r.has_stored(ends) for r in self.cluster.stores)

        with suppress(TimeoutError):
            await wait_until(is_stored, timeout_s=_END_S, every_s=0.5)
        # Records reported last are read last.
        await wait_until(self._all_read, timeout_s=60, every_s=0.2)

    def _source(self) -> Mapping[int, int]:
        """Return where the topic of results ends, by partition."""
        ends = self.cluster.logs.ends()
        return {place[1]: end for place, end in ends.items() if place[0] == "crawled_firehose"}

    def _is_told(self) -> bool:
        """Return whether each pipeline has reported each crawl."""
        named = {reader.pipeline for reader in self.cluster.stores}
        for fed in self.fed:
            told = self.cluster.recorder.records("events", crawlid=fed.crawlid)
            if named - {r.value["pipeline"] for r in told if r.value["event"] == "run_delivered"}:
                return False
        return True

    async def _sample(self) -> None:
        """Read the ledgers again and again, past the proxy, and Kafka's logs right after them."""
        while True:
            with suppress(CrawlstreamError, RedisError, OSError, TimeoutError):
                async with asyncio.timeout(2):
                    states = [
                        await self.cluster.frontier.queries.crawl_state(fed.key, with_domains=False)
                        for fed in self.fed
                    ]
                self.samples.append(
                    LedgerSample(
                        at=time.monotonic() * 1000,
                        # Nothing is known of a partition that is unavailable.
                        ledgers=[s for s in states if s and not s.missing_partitions],
                        logged=self.cluster.logs.ends(),
                    )
                )
            await asyncio.sleep(_SAMPLE_S)

    async def _facts(self) -> Facts:
        self.cluster.site_log.read()
        crawlids = [fed.crawlid for fed in self.fed]
        return Facts(
            fed=self.fed,
            records=sorted(
                (record for name in crawlids for record in self.cluster.recorder.crawl(name)),
                key=lambda record: record.at,
            ),
            visits=[v for v in self.cluster.site_log.visits if v.mono >= self.began * 1000],
            rules=self.cluster.rules,
            samples=self.samples,
            strikes=self.strikes,
            asked=frozenset(self.asked),
            shelf_lost={fed.crawlid: self.cluster.recorder.shelf_lost(fed.key) for fed in self.fed},
            pool=self.pool,
            by_proxies=self.by_proxies,
            render=self.render,
            leaks=await leaks(self.cluster),
            stores=[
                await asyncio.to_thread(reader.read, self._source())
                for reader in self.cluster.stores
            ],
            own_topic=await asyncio.to_thread(self.cluster.recorder.own_topic, APP),
            unreadable=self.cluster.recorder.unreadable,
            undelivered=self.cluster.recorder.undelivered(),
            published=tuple(self.cluster.keyring.published),
            bans=self.cluster.bans,
            spending=await self.watch.spending() if self.watch else None,
            scrapes=self.scrapes,
            spans=spans_of(self.cluster),
        )


def spans_of(cluster: ChaosCluster) -> Sequence[SeenSpan] | None:
    """Return the spans so far; None if the processes are of the version before this one."""
    return None if cluster.before else tuple(cluster.collector.spans)


async def leaks(cluster: ChaosCluster) -> Mapping[str, int]:
    """Return the errors in the frontier now: by its own account, and by every key of it."""
    found: dict[str, int] = {}
    for p, frontier in enumerate(cluster.frontier):
        for crawl, residual in (await frontier.maintenance.balance()).found.items():
            found[f"{crawl.crawlid if crawl else 'held'} in partition {p}"] = residual
        try:
            await check(cluster.observed.redis[p], cluster.frontier.partitions.keys(p))
        except AssertionError as error:
            found[f"a key of partition {p}: {str(error)[:300]}"] = 1
    return found


async def footprint(cluster: ChaosCluster) -> Footprint:
    """Return the size of the data, without the keys that remember an ended crawl for an hour."""
    keys = redis_bytes = 0
    for redis, frontier in zip(cluster.observed.redis, cluster.frontier, strict=True):
        info: dict[str, Any] = await redis.info("memory")
        redis_bytes += info["used_memory"]
        space = (await redis.info("keyspace")).get("db0", {"keys": 0, "expires": 0})
        remembered = len(await frontier.queries.crawls())
        keys += space["keys"] - space["expires"] - remembered
    processes = await asyncio.to_thread(cluster.local.processes)
    rss: dict[str, int] = {}
    for process in processes:
        with suppress(psutil.Error):
            size = psutil.Process(process.pid).memory_info().rss
            rss[process.kind] = max(size, rss.get(process.kind, 0))
    return Footprint(keys=keys, redis_bytes=redis_bytes, rss_bytes=rss)
