"""Settings of Redis, which stores the frontier, and of the shelf for the middle of long queues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, model_validator

from crawlstream.boot.sections.section import Section, new
from crawlstream.keys import FrontierKeys, Partitions

_LEAST_SHELVED = 4


class RedisSettings(Section):
    """Redis: stores the frontier."""

    redis_host: str = "localhost"
    """Host name or IP address of Redis."""
    redis_port: int = Field(6379, ge=1, le=65535)
    """Port of Redis."""
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
            url = urlsplit(self.shelf.get_secret_value())
            if url.scheme not in {"redis", "rediss"} or not url.hostname:
                raise ValueError(
                    "CRAWLSTREAM_SHELF: must be redis://host:port or rediss://host:port"
                )
        return self

    @property
    def shelf_address(self) -> str:
        """The shelf without secrets; nothing where Redis is it."""
        if self.shelf is None:
            return ""
        url = urlsplit(self.shelf.get_secret_value())
        return f"{url.hostname}:{url.port or 6379}/{url.path.strip('/') or 0}"

    @property
    def redis_servers(self) -> Sequence[tuple[str, int]]:
        """Host and port of each server; it is one."""
        return [(self.redis_host, self.redis_port)]

    @property
    def is_redis_cluster(self) -> bool:
        """Whether the servers are nodes of one cluster."""
        return False

    @property
    def partitions(self) -> Partitions:
        """How this cluster's frontier is divided: it has one partition."""
        return Partitions(self.namespace)

    @property
    def keys(self) -> FrontierKeys:
        """The keys of partition 0, which has what belongs to no domain and no crawl."""
        return self.partitions.keys(0)
