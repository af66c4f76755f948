"""Settings of a frontier of several partitions: not documented before everything works with them.

They are read where CRAWLSTREAM_PREVIEW is `partitions`; see ``load_settings``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from pydantic import Field, model_validator

from crawlstream.boot.sections.redis import RedisSettings
from crawlstream.boot.sections.section import Hosts, new
from crawlstream.keys import MOST_PARTITIONS, Partitions

_OF_A_CLUSTER = 16


class PartitionSettings(RedisSettings):
    """Redis: stores the frontier, on several servers."""

    redis_hosts: Hosts = ()
    """Redis servers, as ``host:port`` with commas between them, each with an equal share of the
    partitions. Their order must not change. Default: REDIS_HOST."""
    redis_cluster: Hosts = ()
    """Nodes of a Redis Cluster or Valkey Cluster, as ``host:port`` with commas between them; the
    others are found through them."""
    partition_count: int | None = Field(
        None, validation_alias=new("PARTITIONS"), ge=1, le=MOST_PARTITIONS
    )
    """Number of partitions; changed by `./crawlstream repartition` only. Default: one for each
    server of REDIS_HOSTS, 16 with REDIS_CLUSTER, otherwise 1."""

    @model_validator(mode="after")
    def _check_servers(self) -> Self:
        if self.redis_hosts and self.redis_cluster:
            raise ValueError("REDIS_HOSTS and REDIS_CLUSTER: set one of them")
        if self.redis_cluster and self.redis_db:
            raise ValueError("REDIS_DB: a Redis Cluster has database 0 only")
        self._check_each()
        if self.partitions.number < len(self.redis_hosts):
            raise ValueError(
                f"CRAWLSTREAM_PARTITIONS: must be at least {len(self.redis_hosts)}, the number of"
                " servers in REDIS_HOSTS"
            )
        return self

    def _check_each(self) -> None:
        for name, given in (
            ("REDIS_HOSTS", self.redis_hosts),
            ("REDIS_CLUSTER", self.redis_cluster),
        ):
            for server in given:
                host, _, port = server.rpartition(":")
                if not host or not port.isdecimal() or not 1 <= int(port) <= 65535:
                    raise ValueError(f"{name}: {server!r} is not host:port")
            if len(set(given)) < len(given):
                raise ValueError(f"{name}: a server is listed twice")

    @property
    def partitions(self) -> Partitions:
        """How this cluster's frontier is divided."""
        default = _OF_A_CLUSTER if self.redis_cluster else max(len(self.redis_hosts), 1)
        return Partitions(self.namespace, self.partition_count or default)

    @property
    def redis_servers(self) -> Sequence[tuple[str, int]]:
        """Host and port of each server, or of the nodes of a cluster that are asked first."""
        given = self.redis_hosts or self.redis_cluster
        parts = (server.rpartition(":") for server in given)
        return [(host.strip("[]"), int(port)) for host, _, port in parts] or super().redis_servers

    @property
    def is_redis_cluster(self) -> bool:
        """Whether the servers are nodes of one cluster."""
        return bool(self.redis_cluster)
