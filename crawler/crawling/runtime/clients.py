"""Connections of one worker to the services: made once, opened and closed together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Self

from redis.asyncio import Redis

from crawlstream.boot.clients import blocking_redis, kafka_of, redis_client
from crawlstream.boot.redis_check import check_redis
from crawlstream.boot.settings import Settings
from crawlstream.boot.startup import until_ready
from crawlstream.bus.factory import make_sink
from crawlstream.bus.protocols import Sink
from crawlstream.frontier.egress.book import BookSession
from crawlstream.frontier.egress.handshakes import Handshakes
from crawlstream.frontier.egress.pools import ProxyPools
from crawlstream.frontier.frontier import Frontier
from crawlstream.frontier.throttle_rules import ThrottleRules
from crawlstream.frontier.wake import Sleeper
from crawlstream.frontier.worker_session import WorkerSession

RESULTS_LINGER_MS = 160
"""Pages come one by one; nobody waits for one of them but its own settle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """Redis, the frontier in it, the wake-ups from it, and Kafka."""

    redis: Redis
    waiting_redis: Redis
    """For calls that wait."""
    session: WorkerSession
    rules: ThrottleRules
    pools: ProxyPools
    book: BookSession
    handshakes: Handshakes
    sleeper: Sleeper
    sink: Sink

    @classmethod
    def of(cls, settings: Settings, *, worker: str, spiderid: str) -> Self:
        """Clients that nothing has been asked of yet."""
        redis, waiting_redis = redis_client(settings), blocking_redis(settings)
        frontier = Frontier(redis, settings.keys)
        return cls(
            redis=redis,
            waiting_redis=waiting_redis,
            session=frontier.session(worker, spiderid, group=settings.egress_group),
            rules=frontier.rules,
            pools=frontier.pools,
            book=frontier.book.session(worker),
            handshakes=frontier.handshakes,
            sleeper=Sleeper(waiting_redis, settings.keys, worker),
            sink=make_sink(kafka_of(settings, f"crawler-{spiderid}"), linger_ms=RESULTS_LINGER_MS),
        )

    async def wait_for_redis(self, settings: Settings) -> None:
        """Return when Redis answers, holds what we know, and agrees about limits."""
        await until_ready("redis", partial(check_redis, self.redis, settings.partitions))
        await self.rules.agree(settings.throttle_scope)

    async def close(self) -> None:
        """Let go of Redis; the sink has been stopped."""
        await self.redis.aclose()
        await self.waiting_redis.aclose()
