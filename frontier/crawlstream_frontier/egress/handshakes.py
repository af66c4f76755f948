"""TLS profile of its pool that a site gets, for the whole cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from crawlstream_frontier.codec.values import pack, unpack
from crawlstream_frontier.scripts import Scripts, our_errors

REMEMBERED_MS: Final = 86_400_000
"""Time after which a site gets the first profile of its pool again."""


class Handshakes:
    """Notes of sites that get another profile than the first; all: RedisUnavailable."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    async def profile(self, pool: str, domain: str) -> str | None:
        """Return the profile of a pool for a domain; None: the first of the pool."""
        with our_errors():
            noted = await self._scripts.redis.get(self._scripts.keys.tls(pool, domain))
        return noted.decode() if noted else None

    async def failed(
        self, pool: str, domain: str, profile: str, profiles: Sequence[str]
    ) -> tuple[str, bool]:
        """Report a failed handshake with ``profile``; return the next one of ``profiles``.

        Also returns whether this call moved on: others may have failed before. FrontierFull: Redis
        has no room for the note.
        """
        told = pool, domain, profile, pack(list(profiles)), REMEMBERED_MS
        coming, has_moved = unpack(await self._scripts.run("rotate", *told))
        return coming.decode(), bool(has_moved)
