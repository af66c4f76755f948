"""The door of scrapes: admit each to its site, so that crawls keep their share of the rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from crawlstream_frontier.codec.values import pack, unpack
from crawlstream_frontier.scripts import Scripts


class Admission(StrEnum):
    """How the door answers a scrape."""

    OK = "ok"
    BUSY = "busy"
    """The share of the site is used for longer than the scrape would wait."""
    TOO_MANY = "too_many"
    """The client has as many scrapes in progress as it may have."""
    BLOCKED = "blocked"
    """An operator allows no requests to the site."""
    UNKNOWN = "unknown"
    """There are no throttle rules yet."""


class ScrapeTicket(NamedTuple):
    """A scrape that is to be admitted; its id suffices to report its end."""

    client: str
    site: str
    """Unit of the rate limit, as of ``Frontiers.site_of``."""
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorBounds:
    """Limits under which a scrape is admitted."""

    share: float
    """Part of a site's rule that scrapes may use while other pages wait, up to 1."""
    latest_s: float
    """Seconds until its start at the latest."""
    forgotten_s: float
    """Seconds after which it no longer counts as in progress, if its end was not reported."""
    most: int
    """Scrapes of the client in progress, in this partition."""


@dataclass(frozen=True, slots=True)
class DoorAnswer:
    """Admission of a scrape, and its likely start."""

    admission: Admission
    wait_s: float
    """Seconds until it is likely to start; of a refused one, until it would be admitted."""
    earliest: float
    """Time at which it is likely to start, in epoch seconds."""
    not_before: float
    """Time before which it must not start, in epoch seconds; 0: at once."""


class Door:
    """Admits scrapes in one partition; both methods: RedisUnavailable, NoFrontier."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    async def enter(
        self, ticket: ScrapeTicket, bounds: DoorBounds, ended: Sequence[str] = ()
    ) -> DoorAnswer:
        """Admit a scrape, and report ids of others that have ended. A refused one takes nothing."""
        scrape = [
            *(ticket.site, ticket.client, ticket.id, bounds.share),
            *(int(1000 * bounds.latest_s), int(1000 * bounds.forgotten_s), bounds.most),
        ]
        answer = await self._scripts.run("door", pack([list(ended), scrape]))
        admission, ms, from_ms, date_ms = unpack(answer)
        return DoorAnswer(
            Admission(admission.decode()),
            ms / 1000,
            (date_ms + ms) / 1000,
            (date_ms + from_ms) / 1000 if from_ms else 0,
        )

    async def leave(self, ended: Sequence[str]) -> None:
        """Report the ids of scrapes that have ended, of any process; unknown ones are left out."""
        await self._scripts.run("door", pack([list(ended), []]))
