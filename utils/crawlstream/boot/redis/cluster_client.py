"""A client of a Redis Cluster that raises the same errors as one of a single Redis.

redis-py has errors of its own for a cluster that are no ``RedisError``: no node answers, no node
has the slot, the cluster is down. Callers handle all of them, and a slot that is being moved, as a
broken connection.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

from redis.asyncio import Redis
from redis.asyncio.cluster import ClusterPipeline, RedisCluster
from redis.asyncio.connection import Connection
from redis.exceptions import (
    ClusterDownError,
    ClusterError,
    CrossSlotTransactionError,
    MasterDownError,
    RedisClusterException,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError

from crawlstream.boot.redis.connection import CONNECTIONS, SlotMovedError

_AWAY = (RedisClusterException, ClusterDownError, ClusterError, TryAgainError)


@contextmanager
def _one_connection() -> Iterator[None]:
    """Raise Redis Cluster errors as RedisConnectionError, like a single server's."""
    try:
        yield
    except (CrossSlotTransactionError, MasterDownError):
        raise
    except (*_AWAY, SlotMovedError) as error:
        raise RedisConnectionError(f"Redis Cluster: {error}") from error


class ClusterClient(RedisCluster):
    """As redis-py's, with the errors of ``Redis``."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        nodes = self.nodes_manager
        # For nodes that are found later, and for those that are known.
        given = nodes.connection_kwargs
        given["connection_class"] = CONNECTIONS[given.get("connection_class", Connection)]
        for node in nodes.startup_nodes.values():
            node.connection_class = CONNECTIONS[node.connection_class]

    async def initialize(self, *args: Any, **options: Any) -> Self:
        """Ask the nodes who has which slots, if that is not known."""
        with _one_connection():
            await super().initialize(*args, **options)
            return self

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Run a command on the node that it is for."""
        with _one_connection():
            return await super().execute_command(*args, **options)

    def pipeline(self, transaction: Any = None, shard_hint: Any = None) -> ClusterPipeline:
        """Gather commands; all of them must be for one node if ``transaction`` is true."""
        return _Pipeline(self, transaction)  # type: ignore[abstract]  # As redis-py's own is typed.


class _Pipeline(ClusterPipeline):
    async def execute(self, *args: Any, **options: Any) -> list[Any]:
        with _one_connection():
            return await super().execute(*args, **options)


async def node_of(redis: Redis | RedisCluster, key: str) -> Mapping[str, Any]:
    """Return the option that sends a command to the node with a key; nothing for a single Redis.

    ConnectionError (redis-py): no node answers, or none has the key's slot.
    """
    if not isinstance(redis, RedisCluster):
        return {}
    with _one_connection():
        await redis.initialize()
        return {"target_nodes": redis.get_node_from_key(key)}
