"""Shared objects of the handlers, and their two operations: feed and ask."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Annotated, cast

from fastapi import Depends, Request
from redis.asyncio import Redis

from crawlstream.boot.settings import Settings
from crawlstream.bus.connect import Kafka
from crawlstream.bus.record_reader import RecordReader
from crawlstream.bus.records import Out
from crawlstream.egress.edit import PoolEditor
from crawlstream.errors import KafkaUnavailable, RedisUnavailable
from crawlstream.keys import FrontierKeys, Topics
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.request import RequestLimits
from crawlstream.throttle.edit import ThrottleEditor
from crawlstream.wire import requests
from crawlstream_frontier.partitions.frontiers import Frontiers
from crawlstream_frontier.scrapes.scrape_names import ScrapeNames
from crawlstream_traces.context import parent_in
from rest_service.http.access import MCP_AGENT, Client, RateLimiter
from rest_service.http.byte_budget import ByteBudget
from rest_service.http.envelope import RequestRefused
from rest_service.http.fair_semaphore import FairSemaphore
from rest_service.http.gate import CLIENT
from rest_service.http.idempotency import IdempotencyStore
from rest_service.http.quota import Quota
from rest_service.http.streaming import OpenStreams
from rest_service.metrics import WAITING
from rest_service.rates import DomainRates
from rest_service.sampler import Sampler
from rest_service.topics.extraction import Extraction
from rest_service.topics.flights import Flights
from rest_service.topics.key_checks import KeyChecks
from rest_service.topics.last_runs import LastRuns
from rest_service.topics.maps import SiteMaps
from rest_service.topics.page_replies import PageReplies
from rest_service.topics.producer import MAX_RECORDS, ListProducer
from rest_service.topics.replies import Replies

MAX_PAGES, MAX_PAGES_EACH = 8, 4
"""Limit of concurrent reads of records, each in its own thread; further ones wait their turn."""
MAX_PLACES = 64
"""Limit of scraped pages that are processed at a time."""
ANNOUNCED_EACH_S = 10 / 60
"""Announcements of an address a second, on average."""
PATIENCE_S = 10.0
"""Seconds to wait for a turn."""


@dataclass(slots=True)
class Reach:
    """Services that answered the latest check."""

    kafka: bool = False
    redis: bool = False
    obstacle: str = ""
    """Why Kafka does not answer, or which right it refuses."""

    @property
    def missing(self) -> list[str]:
        """Names of the services that did not answer."""
        return [
            name for name, answers in (("kafka", self.kafka), ("redis", self.redis)) if not answers
        ]

    @property
    def colour(self) -> str:
        """Health in the predecessor's words: GREEN, YELLOW, RED."""
        return ("RED", "YELLOW", "GREEN")[self.kafka + self.redis]


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A REST process."""

    settings: Settings
    topics: Topics
    keys: FrontierKeys
    kafka: Kafka
    redis: Redis
    feeder: ListProducer
    frontier: Frontiers
    sampler: Sampler
    editor: ThrottleEditor
    pools: PoolEditor
    quota: Quota
    records: RecordReader
    scrape_bytes: ByteBudget
    node: str
    """The name of this process, as in its heartbeat."""
    replies: Replies = field(default_factory=Replies)
    pages_replied: PageReplies = field(default_factory=PageReplies)
    flights: Flights = field(default_factory=Flights)
    scrape_names: ScrapeNames = field(default_factory=ScrapeNames)
    extraction: Extraction = field(default_factory=Extraction)
    maps: SiteMaps = field(default_factory=SiteMaps)
    key_checks: KeyChecks = field(default_factory=KeyChecks)
    announcers: RateLimiter = field(
        default_factory=lambda: RateLimiter(ANNOUNCED_EACH_S, burst_s=60)
    )
    """Announcements of an address; the limit of other requests comes before."""
    places: FairSemaphore = field(
        default_factory=lambda: FairSemaphore(
            most=MAX_PLACES, each=MAX_PLACES // 2, patience_s=PATIENCE_S
        )
    )
    reach: Reach = field(default_factory=Reach)
    once: IdempotencyStore = field(default_factory=IdempotencyStore)
    pages: FairSemaphore = field(
        default_factory=lambda: FairSemaphore(
            most=MAX_PAGES, each=MAX_PAGES_EACH, patience_s=PATIENCE_S
        )
    )
    comparisons: FairSemaphore = field(
        default_factory=lambda: FairSemaphore(most=1, each=1, patience_s=PATIENCE_S)
    )
    """A single comparison at a time: each keeps up to 200 000 pages in memory."""
    last_runs: LastRuns = field(default_factory=LastRuns)
    rates: DomainRates = field(default_factory=DomainRates)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    streams: OpenStreams = field(init=False)
    started_at: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        object.__setattr__(self, "streams", OpenStreams(self.stopping))

    @property
    def limits(self) -> RequestLimits:
        """Limits of a request."""
        return self.settings.request_limits

    async def feed(self, raws: Sequence[bytes], traceparent: str = "") -> None:
        """Return when Kafka has every request, in a client's trace; raises like ``send``."""
        topic = self.topics.incoming
        headers = (("traceparent", traceparent.encode()),) if traceparent else ()
        await self.send([Out(topic, raw, requests.key_of(raw), headers) for raw in raws])

    async def send(self, records: Sequence[Out]) -> None:
        """Return when Kafka has every record.

        Raises KafkaUnavailable after KAFKA_FEED_TIMEOUT, when some may have been fed all the same,
        and RecordTooLarge.
        """
        if not self.reach.kafka:
            raise KafkaUnavailable
        try:
            async with asyncio.timeout(self.settings.kafka_feed_timeout):
                for start in range(0, len(records), MAX_RECORDS):
                    await self.feeder.feed(records[start : start + MAX_RECORDS])
        except TimeoutError as error:
            raise KafkaUnavailable from error

    async def request(self, client: Client, raw: bytes, uuid: str) -> bytes | None:
        """Feed a request and return the reply with its uuid; None: the client has to poll for it.

        Raises like ``feed``.
        """
        with self.replies.expecting(uuid, client.may_see) as reply, WAITING.track_inprogress():
            await self.feed([raw], client.traceparent)
            await asyncio.wait([reply], timeout=self.settings.wait_for_response_time)
            return reply.result() if reply.done() else None


def traced(client: Client, request: Request, settings: Settings) -> Client:
    """Return a client with the trace of its request, if that is sampled and traces are on."""
    if not settings.traces or not (header := request.headers.get("traceparent", "")):
        return client
    return replace(client, traceparent=header) if parent_in(header) else client


# Async although they wait for nothing: FastAPI would run them in threads.
async def _service_of(request: Request) -> Service:
    return cast(Service, request.app.state.service)


async def _client_of(request: Request) -> Client:
    service = cast(Service, request.app.state.service)
    client = traced(cast(Client, request.scope[CLIENT]), request, service.settings)
    is_agent = request.headers.get("user-agent", "").startswith(MCP_AGENT)
    return replace(client, via="mcp") if is_agent else client


TheService = Annotated[Service, Depends(_service_of)]
TheClient = Annotated[Client, Depends(_client_of)]


async def named_crawl(service: Service, appid: str, crawlid: str, spiderid: str | None) -> CrawlKey:
    """Return the crawl of these ids: without a spider ``link``'s, or the only one of another.

    Raise RequestRefused (422) if several others have it. While Redis does not answer, it is
    ``link``'s.
    """
    key = CrawlKey(spiderid or "link", appid, crawlid)
    if spiderid is not None:
        return key
    with suppress(RedisUnavailable):
        if await service.frontier.queries.states([key]):
            return key
        known = [one.crawl for one in await service.frontier.queries.crawls(appid=appid)]
        found = [one for one in known if one.crawlid == crawlid]
        if len(found) > 1:
            spiders = ", ".join(sorted(one.spiderid for one in found))
            raise RequestRefused(
                422,
                f"Crawls of several spiders have this id: give `spiderid`, one of {spiders}.",
                code="ambiguous_crawl",
            )
        return found[0] if found else key
    return key


async def _crawl_of(
    service: TheService,
    client: TheClient,
    *,
    appid: str,
    crawlid: str,
    spiderid: str | None = None,
) -> CrawlKey:
    client.check(appid)
    return await named_crawl(service, appid, crawlid, spiderid)


TheCrawl = Annotated[CrawlKey, Depends(_crawl_of)]
