"""How a request leaves: through which proxy, by the policy of which pool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from crawlstream.model.egress.pools import Pool, Proxy, Secret


@dataclass(frozen=True, slots=True)
class Route:
    """A proxy, and the pool whose policy it is used under."""

    pool: Pool
    proxy: Proxy
    credentials: tuple[str, Secret] | None
    """User name and password with their variables filled in."""

    @property
    def shown(self) -> Mapping[str, str]:
        """Return the fields of a result that describe the route."""
        return {"pool": self.pool.name, "id": self.proxy.id}
