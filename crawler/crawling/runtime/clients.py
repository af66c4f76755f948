"""Connections of one worker to the services: made once, opened and closed together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Self

from redis.asyncio import Redis

from crawlstream.boot.clients import blocking_redis, redis_client
from crawlstream.boot.redis_check import check_redis
from crawlstream.boot.retry import until_ready
from crawlstream.boot.settings import Settings
from crawlstream.bus.sink import KafkaSink
from crawlstream.frontier.frontier import Frontier
from crawlstream.frontier.wake import Sleeper

RESULTS_LINGER_MS = 160
"""Pages come one by one; nobody waits for one of them but its own settle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """Redis, the frontier in it, the wake-ups from it, and Kafka."""

    redis: Redis
    waiting_redis: Redis
    """For calls that wait."""
    frontier: Frontier
    sleeper: Sleeper
    sink: KafkaSink

    @classmethod
    def of(cls, settings: Settings, *, worker: str, spiderid: str) -> Self:
        """Clients that nothing has been asked of yet."""
        redis, waiting_redis = redis_client(settings), blocking_redis(settings)
        return cls(
            redis=redis,
            waiting_redis=waiting_redis,
            frontier=Frontier(redis, settings.keys, group=settings.egress_group),
            sleeper=Sleeper(waiting_redis, settings.keys, worker),
            sink=KafkaSink(
                settings.KAFKA_HOSTS,
                client_id=f"crawler-{spiderid}",
                shape=settings.topic_shape,
                codec=settings.KAFKA_COMPRESSION,
                linger_ms=RESULTS_LINGER_MS,
            ),
        )

    async def wait_for_redis(self, settings: Settings) -> None:
        """Return when Redis answers, holds what we know, and agrees about limits."""
        await until_ready("redis", partial(check_redis, self.redis, settings.keys))
        await self.frontier.agree(settings.throttle_scope)

    async def close(self) -> None:
        """Let go of Redis; the sink has been stopped."""
        await self.redis.aclose()
        await self.waiting_redis.aclose()
