"""Clients of Redis servers, made from the settings.

redis-py 8 repeats a command ten times by default, even if it may have taken effect. Here it is
repeated once, which is enough for a connection that went stale in the pool. Every operation of
crawlstream may be repeated; callers decide what happens after the second failure.
"""

from __future__ import annotations

from typing import Any, cast

from redis.asyncio import Redis
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from crawlstream.boot.access import revealed
from crawlstream.boot.redis.cluster_client import ClusterClient
from crawlstream.boot.redis.connection import CONNECTIONS
from crawlstream.boot.settings import Settings
from crawlstream.errors import ConfigError


def client_of(settings: Settings, *, timeout_s: float | None) -> Redis:
    """A client of the cluster, or of the first server, which has partition 0."""
    if settings.is_redis_cluster:
        return cluster_of(settings, timeout_s=timeout_s)
    host, port = settings.redis_servers[0]
    return redis_at(settings, host, port, timeout_s=timeout_s)


def cluster_of(settings: Settings, *, timeout_s: float | None) -> Redis:
    """A client of the whole cluster; ConfigError: the settings cannot be used with one."""
    security = _security(settings)
    if security.pop("ssl_password", None) is not None:
        raise ConfigError(
            "CRAWLSTREAM_REDIS_SSL_KEY_PASSWORD: a Redis Cluster needs a private key without a"
            " password"
        )
    client = ClusterClient(
        **security,
        startup_nodes=[ClusterNode(host, port) for host, port in settings.redis_servers],
        # Names outlive the addresses that the nodes report of each other.
        dynamic_startup_nodes=False,
        # A primary without a successor takes its own partitions with it, not the others.
        require_full_coverage=False,
        username=settings.redis_username,
        password=revealed(settings.redis_password),
        socket_timeout=timeout_s,
        socket_connect_timeout=settings.redis_socket_timeout,
        socket_keepalive=True,
        health_check_interval=30,
        retry=Retry(NoBackoff(), 1),
    )
    # The methods that are used are the same; redis-py's types do not say so.
    return cast(Redis, client)


def redis_at(settings: Settings, host: str, port: int, *, timeout_s: float | None) -> Redis:
    """A client of one server; ``timeout_s`` None: a call waits as long as it says itself."""
    client = Redis(
        **_security(settings),
        host=host,
        port=port,
        db=settings.redis_db,
        username=settings.redis_username,
        password=revealed(settings.redis_password),
        socket_timeout=timeout_s,
        socket_connect_timeout=settings.redis_socket_timeout,
        socket_keepalive=True,
        health_check_interval=30,
        retry=Retry(NoBackoff(), 1),
    )
    pool = client.connection_pool
    pool.connection_class = CONNECTIONS[pool.connection_class]
    return client


def _security(settings: Settings) -> dict[str, Any]:
    """Return the TLS options for redis-py; none without TLS."""
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
