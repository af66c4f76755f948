"""The partitions of a frontier, each as a ``Frontier`` of its own; one object per process.

With one partition it has one ``Frontier``, and a call costs the same as a call of that one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster
from redis.exceptions import RedisClusterException

from crawlstream.keys import FrontierKeys, Partitions
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.throttle_table import site_of
from crawlstream.model.url import domain_key
from crawlstream_frontier.egress.proxy_book import ProxyBook
from crawlstream_frontier.egress.proxy_pools import ProxyPools
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.inspector import Inspector
from crawlstream_frontier.maintenance import FrontierLimits
from crawlstream_frontier.partitions.answers import ANSWER_S, Answers, Question, T, query_all
from crawlstream_frontier.partitions.inspection import DividedInspector
from crawlstream_frontier.partitions.queries import DividedQueries
from crawlstream_frontier.partitions.schedules import DividedSchedules
from crawlstream_frontier.partitions.tables import DividedPools, DividedRules
from crawlstream_frontier.queries import FrontierQueries
from crawlstream_frontier.schedules import Schedules
from crawlstream_frontier.shelves.shelf import Shelf
from crawlstream_frontier.streams import Streams
from crawlstream_frontier.throttle_rules import ThrottleRules
from crawlstream_frontier.wake import Sleeper
from crawlstream_frontier.worker.session import WorkerSession


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisServer:
    """A Redis, or a Redis Cluster, that has partitions."""

    name: str
    """Name in messages: ``host:port``."""
    redis: Redis
    """For commands."""
    waiting: Redis
    """For calls that wait inside Redis: blocking reads, subscriptions."""


class Frontiers:
    """Finds the partition of a domain, crawl or host; no other class makes a hash tag."""

    def __init__(
        self,
        partitions: Partitions,
        servers: Sequence[RedisServer],
        limits: FrontierLimits | None = None,
        shelf: Shelf | None = None,
    ) -> None:
        """``servers`` have equal, contiguous shares of the partitions, in order.

        ``limits`` are those of the whole frontier.
        """
        limits = (limits or FrontierLimits()).shared_by(partitions.number)
        self.partitions = partitions
        self._servers = [
            servers[p * len(servers) // partitions.number] for p in range(partitions.number)
        ]
        self._frontiers = [
            Frontier(server.redis, partitions.keys(p), limits, shelf)
            for p, server in enumerate(self._servers)
        ]

    def __len__(self) -> int:
        return len(self._frontiers)

    def __iter__(self) -> Iterator[Frontier]:
        return iter(self._frontiers)

    def __getitem__(self, partition: int) -> Frontier:
        """The partition with this number; IndexError."""
        return self._frontiers[partition]

    def of(self, domain: str) -> Frontier:
        """The partition that has a domain: queues, duplicate filter, rate limits."""
        return self._frontiers[self.partitions.of(domain)]

    def of_host(self, host: str) -> Frontier:
        """The partition that has the domain of a host; see ``domain_key``."""
        return self.of(domain_key(host))

    async def site_of(self, place: str) -> str:
        """Return the site that counts requests to a URL or host; RedisUnavailable."""
        return site_of(await self.rules.table(), place)

    def coordinator(self, crawl: CrawlKey) -> Frontier:
        """The partition that knows which run of a crawl is open."""
        return self._frontiers[self.partitions.coordinator(crawl)]

    @property
    def root(self) -> Frontier:
        """The partition with the data of no domain and no crawl; docs/keys.md."""
        return self._frontiers[0]

    @property
    def heartbeats(self) -> Sequence[tuple[Redis, FrontierKeys]]:
        """The two places of processes' heartbeats, in partitions that are far from each other.

        One of them may be unavailable. ``Heartbeat``, ``living`` and ``wish`` take them.
        """
        chosen = [self._frontiers[p].scripts for p in sorted({0, len(self) // 2})]
        return [(scripts.redis, scripts.keys) for scripts in chosen]

    @property
    def servers(self) -> Sequence[RedisServer]:
        """The server of each partition."""
        return self._servers

    def name(self, partition: int) -> str:
        """Return a partition's name in messages: its number and server."""
        return f"partition {partition} ({self.machine(partition)})"

    def machine(self, partition: int) -> str:
        """Return the server that a partition is on now: in a cluster, the node with its slot."""
        server = self._servers[partition]
        client: object = server.redis
        if not isinstance(client, RedisCluster):
            return server.name
        tag = self._frontiers[partition].scripts.keys.tag
        try:
            node = client.get_node_from_key(tag)
        except RedisClusterException:
            node = None
        return str(node.name) if node else server.name

    def streams(self, partition: int, consumer: str) -> Streams:
        """The streams of one partition, as one consumer reads them."""
        return Streams(self._servers[partition].waiting, self.partitions.keys(partition), consumer)

    def session(
        self, partition: int, worker: str, spiderid: str, *, group: str = ""
    ) -> WorkerSession:
        """Return the session of a worker in one partition; ``group`` is its egress group."""
        scripts = self._frontiers[partition].scripts
        return WorkerSession(scripts, worker, spiderid, group=group, partition=partition)

    def sleeper(self, partition: int, name: str) -> Sleeper:
        """Return a sleeper that one partition wakes when it has work for ``name``."""
        return Sleeper(self._servers[partition].waiting, self.partitions.keys(partition), name)

    @property
    def queries(self) -> FrontierQueries:
        """Queries of the whole frontier."""
        return self.root.queries if len(self) == 1 else DividedQueries(self)

    @property
    def inspector(self) -> Inspector:
        """Inspection of single pages and domains."""
        return self.root.inspector if len(self) == 1 else DividedInspector(self)

    @property
    def rules(self) -> ThrottleRules:
        """The throttle rules of all partitions."""
        return self.root.rules if len(self) == 1 else DividedRules(self)

    @property
    def pools(self) -> ProxyPools:
        """The proxy pools of all partitions."""
        return self.root.pools if len(self) == 1 else DividedPools(self)

    @property
    def book(self) -> ProxyBook:
        """The book of the proxies."""
        return self.root.book

    @property
    def schedules(self) -> Schedules:
        """The schedules of all applications."""
        return self.root.schedules if len(self) == 1 else DividedSchedules(self)

    async def query(self, question: Question[T], *, within_s: float = ANSWER_S) -> Answers[T]:
        """Query all partitions at once; a single one may take its time.

        RedisUnavailable: none answered. Any other error of one of them is raised.
        """
        if len(self) == 1:
            return Answers({0: await question(self.root)}, {})
        return await query_all(dict(enumerate(self._frontiers)), question, within_s=within_s)
