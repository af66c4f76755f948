"""Redis clients that behave under faults: one for commands, one for waiting.

redis-py 8 repeats a command ten times by default, whether or not it has taken effect. Here it
is repeated once, which is what a connection that went stale in the pool needs; every operation
of ours may be repeated, and whoever calls decides what happens after that.
"""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from crawlstream.boot.access import revealed
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
        **_security(settings),
        host=settings.REDIS_HOST,
        port=settings.REDIS_PORT,
        db=settings.REDIS_DB,
        username=settings.redis_username,
        password=revealed(settings.REDIS_PASSWORD),
        socket_timeout=timeout_s,
        socket_connect_timeout=settings.REDIS_SOCKET_TIMEOUT,
        socket_keepalive=True,
        health_check_interval=30,
        retry=Retry(NoBackoff(), 1),
    )


def _security(settings: Settings) -> dict[str, Any]:
    """What redis-py is told of TLS; nothing where there is none."""
    if not settings.redis_tls:
        return {}
    return {
        "ssl": True,
        "ssl_ca_certs": settings.redis_ca_file,
        "ssl_certfile": settings.redis_certificate_file,
        "ssl_keyfile": settings.redis_key_file,
        "ssl_password": revealed(settings.redis_key_password),
        "ssl_check_hostname": settings.redis_check_hostname,
    }
