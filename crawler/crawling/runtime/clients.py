"""Connections of one worker to the services: created once, opened and closed together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

from redis.asyncio import Redis

from crawling.robots.robots_book import RobotsBook
from crawlstream.boot.clients import kafka_of
from crawlstream.boot.settings import Settings
from crawlstream.boot.startup import until_ready
from crawlstream.bus.access.rights import Rights, check_rights
from crawlstream.bus.connect import Kafka
from crawlstream.bus.factory import make_sink
from crawlstream.bus.protocols import Sink
from crawlstream.model.throttle_table import SiteReaction, ThrottleRule
from crawlstream.model.url import domain_key
from crawlstream.model.web.throttle_groups import Groups
from crawlstream_frontier.egress.handshakes import Handshakes
from crawlstream_frontier.egress.proxy_book import BookSession
from crawlstream_frontier.egress.proxy_pools import ProxyPools
from crawlstream_frontier.egress.purses import Purses
from crawlstream_frontier.opening.identity import join_cluster
from crawlstream_frontier.opening.servers import redis_servers
from crawlstream_frontier.opening.startup_check import check_frontiers
from crawlstream_frontier.partitions.frontiers import Frontiers
from crawlstream_frontier.partitions.labelling import Labelling
from crawlstream_frontier.throttle_rules import ThrottleRules
from crawlstream_frontier.wake import Sleeper
from crawlstream_frontier.worker.session import Reservation, WorkerSession

RESULTS_LINGER_MS = 160
"""Milliseconds to collect results: they come singly, and only their own settle waits for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """Redis, the frontier in it, the wake-ups from it, and Kafka."""

    frontiers: Frontiers
    sessions: Sequence[WorkerSession]
    """Sessions, one with each partition, in the order of the partitions."""
    sleepers: Sequence[Sleeper]
    """Sleepers of the sessions, in the same order."""
    labelling: Labelling | None
    """Queries the coordinators of crawls; None if there is only one partition."""
    rules: ThrottleRules
    pools: ProxyPools
    book: BookSession
    handshakes: Handshakes
    purses: Purses
    kafka: Kafka
    sink: Sink

    @classmethod
    def of(cls, settings: Settings, *, worker: str, spiderid: str) -> Self:
        """Create the clients; nothing is sent yet."""
        frontiers = Frontiers(settings.partitions, redis_servers(settings))
        root, kafka = frontiers.root, kafka_of(settings, f"crawler-{spiderid}")
        topics = settings.topics
        return cls(
            frontiers=frontiers,
            sessions=[
                frontiers.session(p, worker, spiderid, group=settings.egress_group)
                for p in range(len(frontiers))
            ],
            sleepers=[frontiers.sleeper(p, worker) for p in range(len(frontiers))],
            labelling=Labelling(frontiers) if len(frontiers) > 1 else None,
            rules=frontiers.rules,
            pools=frontiers.pools,
            book=root.book.session(worker),
            handshakes=root.handshakes,
            purses=root.purses,
            kafka=kafka,
            sink=make_sink(
                kafka, linger_ms=RESULTS_LINGER_MS, topics=(topics.crawled, topics.outbound)
            ),
        )

    @property
    def redis(self) -> Redis:
        """Return the Redis with the data that does not belong to a domain."""
        return self.frontiers.servers[0].redis

    @property
    def robots(self) -> RobotsBook:
        """Return the cluster's store of robots.txt files."""
        return RobotsBook(lambda host: self.frontiers.of_host(host).scripts)

    def site_of(self, partition: int, url: str) -> str:
        """Return the site of a URL, by the rules that a partition grants by."""
        return self.sessions[partition].site_of(url)

    def groups_of(self, partition: int) -> Groups[ThrottleRule] | None:
        """Return the limits that sites have in common, by the rules that a partition grants by."""
        return self.sessions[partition].groups

    async def reserve(
        self, host: str, *, takes_ms: int, within_ms: int, gate: str | None = None
    ) -> Reservation:
        """Reserve a request to the site of a host; see ``WorkerSession.reserve``."""
        session = self.sessions[self.frontiers.partitions.of(domain_key(host))]
        return await session.reserve(host, takes_ms=takes_ms, within_ms=within_ms, gate=gate)

    async def reacted(self, place: Reservation, reaction: SiteReaction) -> None:
        """Report how a site reacted to a reserved request."""
        await self.sessions[place.partition].reacted(place, reaction)

    async def beat(self, partition: int) -> int:
        """Contact a partition; return the epoch of its Redis."""
        return await self.sessions[partition].beat()

    async def wait_for_redis(self, settings: Settings) -> None:
        """Wait until Redis answers, belongs to this cluster and has the same throttle scope."""
        await until_ready("redis", partial(check_frontiers, self.frontiers, "away"))
        await until_ready("redis", partial(join_cluster, settings, self.frontiers))
        await self.frontiers.rules.agree(settings.throttle_scope)

    async def wait_for_kafka(self, settings: Settings) -> None:
        """Wait until Kafka takes records; ConfigError if it refuses the client or a right."""
        topics = settings.topics
        further = [topics.links] if len(self.frontiers) > 1 else []
        written = [topics.crawled, topics.events, topics.outbound]
        written += [topics.overflow, topics.requisites]
        rights = Rights(writes=[*written, *further])
        await until_ready("kafka", partial(check_rights, self.kafka, rights))
        await self.sink.start()

    async def close(self) -> None:
        """Close the connections to Redis; the sink has been stopped before."""
        if self.labelling:
            await self.labelling.stop()
        for server in dict.fromkeys(self.frontiers.servers):
            await server.redis.aclose()
            await server.waiting.aclose()
