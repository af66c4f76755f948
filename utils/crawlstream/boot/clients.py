"""Redis clients that behave under faults: one for commands, one for waiting.

redis-py 8 repeats a command ten times by default, whether or not it has taken effect. Here it
is repeated once, which is what a connection that went stale in the pool needs; every operation
of ours may be repeated, and whoever calls decides what happens after that.
"""

from __future__ import annotations

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from crawlstream.boot.settings import Settings


def redis_client(settings: Settings) -> Redis:
    """A client for commands: no answer within REDIS_SOCKET_TIMEOUT is an error."""
    return _client(settings, timeout_s=settings.REDIS_SOCKET_TIMEOUT)


def blocking_redis(settings: Settings) -> Redis:
    """A client for calls that wait inside Redis: blocking reads, subscriptions.

    It waits as long as the call itself says; keepalive and a ping tell a dead connection.
    """
    return _client(settings, timeout_s=None)


def _client(settings: Settings, *, timeout_s: float | None) -> Redis:
    return Redis(
        host=settings.REDIS_HOST,
        port=settings.REDIS_PORT,
        db=settings.REDIS_DB,
        password=settings.REDIS_PASSWORD,
        socket_timeout=timeout_s,
        socket_connect_timeout=settings.REDIS_SOCKET_TIMEOUT,
        socket_keepalive=True,
        health_check_interval=30,
        retry=Retry(NoBackoff(), 1),
    )
