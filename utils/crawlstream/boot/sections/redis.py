"""Settings of Redis, which stores the frontier, and of the shelf for the middle of long queues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self
from urllib.parse import urlsplit  # noqa: TID251  settings, of any scheme

from pydantic import Field, SecretStr, model_validator

from crawlstream.boot.sections.section import Host, Hosts, Section, check_addresses, check_url, new
from crawlstream.keys import MOST_PARTITIONS, FrontierKeys, Partitions

_SHELVES = ("redis", "rediss")
_LEAST_SHELVED = 4
_OF_A_CLUSTER = 16
"""Partitions of a frontier on a Redis Cluster, unless another number is set."""


class RedisSettings(Section):
    """Redis: stores the frontier."""

    redis_host: Host = "localhost"
    """Host name or IP address of Redis."""
    redis_port: int = Field(6379, ge=1, le=65535)
    """Port of Redis."""
    redis_hosts: Hosts = ()
    """Several Redis servers instead, as ``host:port`` with commas between them, each with an equal
    share of the partitions. Their order must not change."""
    redis_cluster: Hosts = ()
    """Nodes of a Redis Cluster or Valkey Cluster instead, as ``host:port`` with commas between
    them; the others are found through them."""
    partition_count: int | None = Field(
        None, validation_alias=new("PARTITIONS"), ge=1, le=MOST_PARTITIONS
    )
    """Number of partitions (shards) of the frontier; ``repartition`` changes it later. Default: one
    for each server of REDIS_HOSTS, 16 with REDIS_CLUSTER, otherwise 1."""
    redis_db: int = Field(0, ge=0)
    """Redis database number."""
    redis_socket_timeout: float = Field(10, gt=0)
    """Timeout of one Redis call, in seconds."""
    namespace: str = Field("cs", validation_alias=new("NAMESPACE"), pattern=r"^[a-z][a-z0-9_]*$")
    """Prefix of every Redis key. Clusters with different prefixes can share one Redis."""
    shelve_at: int = Field(256, validation_alias=new("SHELVE_AT"), ge=0, le=100_000)
    """Length of a queue (the waiting pages of one crawl, domain and priority) from which on its
    middle is kept compressed, on the shelf; at least 4. 0: never."""
    shelf: SecretStr | None = Field(None, validation_alias=new("SHELF"))
    """Server for the middle of long queues, ``redis://user:password@host:port/db`` (``rediss://``:
    TLS). Any that knows SET, GET and DEL will do; it must keep what it has acknowledged. Default:
    Redis itself."""

    @model_validator(mode="after")
    def _check_shelf(self) -> Self:
        if 0 < self.shelve_at < _LEAST_SHELVED:
            raise ValueError(f"CRAWLSTREAM_SHELVE_AT: must be 0 or at least {_LEAST_SHELVED}")
        if self.shelf is not None:
            url = check_url("CRAWLSTREAM_SHELF", self.shelf.get_secret_value(), _SHELVES)
            if not (url.path.strip("/") or "0").isdecimal():
                raise ValueError("CRAWLSTREAM_SHELF: its path must be the number of a database")
        return self

    @property
    def shelf_address(self) -> str:
        """The shelf without secrets; nothing where Redis is it."""
        if self.shelf is None:
            return ""
        url = urlsplit(self.shelf.get_secret_value())
        return f"{url.hostname}:{url.port or 6379}/{url.path.strip('/') or 0}"

    @model_validator(mode="after")
    def _check_servers(self) -> Self:
        if self.redis_hosts and self.redis_cluster:
            raise ValueError("REDIS_HOSTS and REDIS_CLUSTER: set one of them")
        if self.redis_cluster and self.redis_db:
            raise ValueError("REDIS_DB: a Redis Cluster has database 0 only")
        for name, given in (
            ("REDIS_HOSTS", self.redis_hosts),
            ("REDIS_CLUSTER", self.redis_cluster),
        ):
            check_addresses(name, given)
            if len(set(given)) < len(given):
                raise ValueError(f"{name}: a server is listed twice")
        if self.partitions.number < len(self.redis_hosts):
            raise ValueError(
                f"CRAWLSTREAM_PARTITIONS: must be at least {len(self.redis_hosts)}, the number of"
                " servers in REDIS_HOSTS"
            )
        return self

    @property
    def redis_servers(self) -> Sequence[tuple[str, int]]:
        """Host and port of each server, or of the nodes through which a cluster is found."""
        given = self.redis_hosts or self.redis_cluster
        parts = (server.rpartition(":") for server in given)
        named = [(host.strip("[]"), int(port)) for host, _, port in parts]
        return named or [(self.redis_host, self.redis_port)]

    @property
    def is_redis_cluster(self) -> bool:
        """Return whether the servers are nodes of one cluster."""
        return bool(self.redis_cluster)

    @property
    def partitions(self) -> Partitions:
        """Return how this cluster's frontier is divided."""
        default = _OF_A_CLUSTER if self.redis_cluster else max(len(self.redis_hosts), 1)
        return Partitions(self.namespace, self.partition_count or default)

    @property
    def keys(self) -> FrontierKeys:
        """The keys of partition 0, which has what belongs to no domain and no crawl."""
        return self.partitions.keys(0)
