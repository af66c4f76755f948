"""The partitions of a frontier, each as a ``Frontier`` of its own; one object a process.

With one partition it holds one ``Frontier``, and asking it costs what asking that one costs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from redis.asyncio import Redis

from crawlstream.errors import RedisUnavailable
from crawlstream.frontier.frontier import Frontier
from crawlstream.frontier.maintenance import FrontierLimits
from crawlstream.frontier.scripts import our_errors
from crawlstream.frontier.shelves.shelf import Shelf
from crawlstream.frontier.streams import Streams
from crawlstream.frontier.wake import Sleeper
from crawlstream.frontier.worker_session import WorkerSession
from crawlstream.keys import FrontierKeys, Partitions
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.url import domain_key
from crawlstream.tasks import together

ANSWER_S = 5.0
"""How long one of several partitions may take to answer before the others go on without it."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A Redis, or a Redis Cluster, that has partitions."""

    name: str
    """As people know it: ``host:port``."""
    redis: Redis
    """For commands."""
    waiting: Redis
    """For calls that wait inside Redis: blocking reads, subscriptions."""


@dataclass(frozen=True, slots=True)
class Answers(Generic[T]):
    """What partitions answered; those that did not are named, and nothing is guessed of them."""

    by_partition: Mapping[int, T]
    missing: Mapping[int, str]
    """Why, by partition."""

    @property
    def values(self) -> Sequence[T]:
        """In the order of the partitions."""
        return [self.by_partition[p] for p in sorted(self.by_partition)]


class Frontiers:
    """Finds the partition for whatever is asked; nobody else makes a hash tag."""

    def __init__(
        self,
        partitions: Partitions,
        servers: Sequence[Server],
        limits: FrontierLimits | None = None,
        shelf: Shelf | None = None,
    ) -> None:
        """``servers`` have equal, contiguous shares of the partitions, in order."""
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

    def home(self, crawl: CrawlKey) -> Frontier:
        """The partition that knows which run of a crawl is open."""
        return self._frontiers[self.partitions.home(crawl)]

    @property
    def root(self) -> Frontier:
        """The partition that has what belongs to no domain and no crawl; docs/keys.md."""
        return self._frontiers[0]

    @property
    def heartbeats(self) -> Sequence[tuple[Redis, FrontierKeys]]:
        """Where processes tell that they live: twice, in partitions that are far from each other.

        One of them may be away. ``Heartbeat``, ``living`` and ``wish`` take them.
        """
        chosen = [self._frontiers[p].scripts for p in sorted({0, len(self) // 2})]
        return [(scripts.redis, scripts.keys) for scripts in chosen]

    @property
    def servers(self) -> Sequence[Server]:
        """The server of each partition."""
        return self._servers

    def name(self, partition: int) -> str:
        """What people call a partition: its number, and where it is."""
        return f"partition {partition} ({self._servers[partition].name})"

    def streams(self, partition: int, consumer: str) -> Streams:
        """The streams of one partition, as one consumer reads them."""
        return Streams(self._servers[partition].waiting, self.partitions.keys(partition), consumer)

    def session(
        self, partition: int, worker: str, spiderid: str, *, group: str = ""
    ) -> WorkerSession:
        """What a worker of this name uses of one partition; ``group`` is its egress group."""
        scripts = self._frontiers[partition].scripts
        return WorkerSession(scripts, worker, spiderid, group=group, partition=partition)

    def sleeper(self, partition: int, name: str) -> Sleeper:
        """Hears of one partition that there is work for ``name``."""
        return Sleeper(self._servers[partition].waiting, self.partitions.keys(partition), name)

    async def ask(self, question: Callable[[Frontier], Awaitable[T]]) -> Answers[T]:
        """Ask all partitions at once.

        RedisUnavailable: none answered. Any other error of one of them is raised.
        """
        return await self.ask_some(range(len(self)), question)

    async def ask_some(
        self, partitions: Sequence[int], question: Callable[[Frontier], Awaitable[T]]
    ) -> Answers[T]:
        """Ask some partitions at once; see ``ask``."""
        if len(self) == 1:
            return Answers({0: await question(self._frontiers[0])} if partitions else {}, {})
        asked = [_in_time(question(self._frontiers[p])) for p in partitions]
        answers: dict[int, T] = {}
        missing: dict[int, str] = {}
        for p, answer in zip(partitions, await together(asked), strict=True):
            if isinstance(answer, _Missing):
                missing[p] = answer.reason
            else:
                answers[p] = answer
        if missing and not answers:
            raise RedisUnavailable("; ".join(sorted(set(missing.values()))))
        return Answers(answers, missing)


@dataclass(frozen=True, slots=True)
class _Missing:
    reason: str


async def _in_time(answer: Awaitable[T]) -> T | _Missing:
    """What is answered, or why nothing is."""
    try:
        with our_errors():
            async with asyncio.timeout(ANSWER_S):
                return await answer
    except TimeoutError:
        return _Missing(f"Redis does not answer within {ANSWER_S:g} s")
    except RedisUnavailable as error:
        return _Missing(str(error) or "Redis holds no frontier")
