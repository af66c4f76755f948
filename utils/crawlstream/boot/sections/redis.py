"""Settings of Redis, which stores the frontier."""

from __future__ import annotations

from pydantic import Field

from crawlstream.boot.sections.section import Section, new
from crawlstream.keys import FrontierKeys


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

    @property
    def keys(self) -> FrontierKeys:
        """The keys of this cluster's frontier."""
        return FrontierKeys(self.namespace)
