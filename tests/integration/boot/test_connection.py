"""A connection closed while it is written to means an unavailable Redis, on either side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from redis.asyncio.connection import SSLConnection
from redis.exceptions import ConnectionError as RedisConnectionError

from crawlstream.boot.redis.connect import client_of
from crawlstream.boot.redis.connection import CONNECTIONS
from crawlstream.boot.settings import Settings
from crawlstream_chaos.processes import RunningServer
from support.partitions.servers.divided import divided_settings
from support.partitions.servers.redis_cluster import redis_cluster


async def test_a_connection_that_another_task_has_lost(
    redis_server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """redis-py then writes to None; a worker that met it must not end of Python's error."""
    settings = Settings.model_validate({"REDIS_HOST": "127.0.0.1", "REDIS_PORT": redis_server.port})
    async with client_of(settings, timeout_s=2) as redis:
        pool: Any = redis.connection_pool
        connection = pool.make_connection()
        monkeypatch.setattr(type(connection), "is_connected", property(lambda _: True))
        with pytest.raises(RedisConnectionError, match="was closed"):
            await connection.send_command("PING", check_health=False)
        monkeypatch.undo()
        await connection.send_command("PING", check_health=False)
        assert await connection.read_response() == b"PONG"
        await connection.disconnect()


async def test_nodes_of_a_cluster_have_such_connections(tmp_path: Path) -> None:
    """Nodes that the settings name, and those that the nodes report."""
    async with redis_cluster(tmp_path) as cluster:
        settings = divided_settings(REDIS_CLUSTER=cluster.addresses.partition(",")[0])
        async with client_of(settings, timeout_s=2) as redis:
            assert await redis.ping(target_nodes="all")
            nodes: Any = redis
            kinds = {node.connection_class for node in nodes.get_nodes()}
            assert len(nodes.get_nodes()) == len(cluster.nodes)
            assert kinds <= set(CONNECTIONS.values())


async def test_tls_has_such_connections() -> None:
    """The class that speaks TLS is replaced as well."""
    settings = Settings.model_validate({"REDIS_HOST": "127.0.0.1", "REDIS_TLS": "true"})
    async with client_of(settings, timeout_s=2) as redis:
        kind = redis.connection_pool.connection_class
        assert issubclass(kind, SSLConnection)
        assert kind in CONNECTIONS.values()
