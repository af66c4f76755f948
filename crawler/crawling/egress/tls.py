"""Which TLS profile a page is asked for with.

A pool may have several: after a failed handshake its pages on that site are asked for with the next
one, by the whole cluster and for a day. Nothing that a site answers moves it on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import structlog

from crawling.lease.expired import GrantExpired
from crawling.metrics import TLS_ROTATIONS
from crawling.page.page import Page
from crawlstream.errors import CrawlstreamError
from crawlstream.model.egress.pools import Pool
from crawlstream.model.egress.tls import DEFAULT
from crawlstream_frontier.egress.handshakes import Handshakes

LOOK_AGAIN_MS: Final = 30_000
"""Pause of a page whose profile this crawler may not use until the operator allows it."""
KNOWN_S: Final = 5.0
"""Seconds for which a known profile is used before it is read again; at once for failed pages."""
_TOLD_EVERY_S = 30.0
"""Seconds between two log lines that pages wait for a profile."""
_MOST_REMEMBERED = 20_000

log = structlog.get_logger()


class NoProfile(GrantExpired):
    """This crawler may not use any of the profiles of a page; it is given back, and waits."""

    reason = "no_tls_profile"
    delay_ms = LOOK_AGAIN_MS


def is_named(page: Page) -> bool:
    """Return whether a page asks for a profile that Scrapy's client does not have."""
    return page.lease.profile.tls not in {None, DEFAULT}


class TlsChoice:
    """Chooses for the pages of one process."""

    def __init__(self, handshakes: Handshakes, allowed: Sequence[str]) -> None:
        """``allowed``: the profiles that this crawler may use."""
        self._handshakes = handshakes
        self._allowed = allowed
        self._known: dict[tuple[str, str], tuple[float, str | None]] = {}
        self._told_at = -_TOLD_EVERY_S

    async def profile_for(self, page: Page, pool: Pool | None) -> str:
        """The profile of a page; NoProfile if there is none that may be used."""
        profiles = self._profiles_of(page, pool)
        if pool is None or len(profiles) == 1:
            return profiles[0]
        noted = await self._noted(pool.name, page)
        return noted if noted and noted in profiles else profiles[0]

    async def failed(self, page: Page, pool: Pool | None, profile: str) -> None:
        """A handshake for a page has failed: the next profile of its pool has its turn."""
        profiles = self._profiles_of(page, pool)
        if pool is None or len(profiles) == 1:
            return
        domain = page.lease.domain
        told = pool.name, domain, profile, profiles
        try:
            coming, has_moved = await self._handshakes.failed(*told)
        except CrawlstreamError as error:
            log.warning("proxies", outcome="not_noted", error=str(error))
            return
        self._remember(pool.name, domain, coming)
        if has_moved:
            TLS_ROTATIONS.labels(coming).inc()
            log.info("proxies", outcome="tls_profile", pool=pool.name, domain=domain, to=coming)

    def _profiles_of(self, page: Page, pool: Pool | None) -> Sequence[str]:
        wished = pool.tls if pool else (DEFAULT,)
        if page.lease.profile.tls is not None:
            wished = (page.lease.profile.tls,)
        if found := [name for name in wished if name in self._allowed]:
            return found
        words = f"{', '.join(wished)}: not allowed here (CRAWLSTREAM_TLS_PROFILES)"
        now = time.monotonic()
        if now - self._told_at >= _TOLD_EVERY_S:
            self._told_at = now
            log.warning("fetch", outcome="no_tls_profile", url=page.lease.entry.url, reason=words)
        raise NoProfile(words)

    async def _noted(self, pool: str, page: Page) -> str | None:
        """Return the cluster's noted profile, or the last known one if Redis does not answer."""
        domain = page.lease.domain
        at, known = self._known.get((pool, domain), (-KNOWN_S, None))
        if time.monotonic() - at < KNOWN_S and not page.lease.retries:
            return known
        try:
            known = await self._handshakes.profile(pool, domain)
        except CrawlstreamError as error:
            log.warning("proxies", outcome="no_answer", error=str(error))
        else:
            self._remember(pool, domain, known)
        return known

    def _remember(self, pool: str, domain: str, profile: str | None) -> None:
        if len(self._known) >= _MOST_REMEMBERED:
            self._known.clear()
        self._known[pool, domain] = time.monotonic(), profile
