"""robots.txt files on another site than the pages that they are for.

If a site's robots.txt redirects to another site, the redirect is followed (RFC 9309, 2.3.1.2). Its
request counts against the rule of the other site, which *reserves* it; pages that need the file
wait. It is fetched once for all sites that redirect to it. Until it is known, none of their pages
is fetched.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

import structlog
from scrapy import Request
from scrapy.exceptions import DownloadCancelledError
from scrapy.http import Response

from crawling.background import Tasks
from crawling.failures import TooLarge
from crawling.lease.expired import GrantExpired
from crawling.lease.last_contact import CONTACT_WITHIN_S
from crawling.lease.leases import Leases
from crawling.lease.machines import OtherMachine
from crawling.page.page import Page
from crawling.response.site_feedback import reaction_to_failure
from crawling.robots.request import robots_request
from crawling.robots.robots_book import (
    EVERYTHING_FORBIDDEN,
    MAX_HOPS,
    RobotsBook,
    RobotsNote,
    file_of,
    later,
    note_of,
)
from crawlstream.model.crawl import Entry
from crawlstream.model.throttle_table import SiteReaction
from crawlstream.model.url import host_of
from crawlstream.retry import Backoff, until_available
from crawlstream_frontier.worker.session import Reservation

_TAKES_S: Final = 5.0
"""Seconds in which the other site gets no other request, and timeout of this one."""
_WITHIN_S: Final = 15.0
"""Seconds for which a file is claimed: longer than waiting for its site and fetching it."""
_REPORTS_S: Final = 4.0
"""Seconds that each of two reports may wait for Redis; the claim of the file ends later."""
_PAUSE: Final = RobotsNote(b"fetching", 2.0)
"""Note for pages that wait for a file, and seconds until they look again."""
_UNGRANTED: Final = RobotsNote(b"fetching", 10.0)
"""Note while the file's site allows no request: it is paused, or at its limit."""
_OPEN: Final = RobotsNote(b"open", 3600.0)

log = structlog.get_logger()


class FrontierCalls(Protocol):
    """Part of the frontier that is needed here; see ``Clients``."""

    @property
    def robots(self) -> RobotsBook:
        """The cluster's notes about robots.txt files."""
        ...

    async def reserve(
        self, host: str, *, takes_ms: int, within_ms: int, gate: str | None = None
    ) -> Reservation:
        """Have the site of a host allow a request; see ``WorkerSession.reserve``."""
        ...

    async def reacted(self, place: Reservation, reaction: SiteReaction) -> None:
        """Report how a site reacted to a reserved request."""
        ...

    async def beat(self, partition: int) -> int:
        """Contact a partition; return the epoch of its Redis."""
        ...


class Elsewhere:
    """Finds the files that redirects lead to on other sites."""

    def __init__(
        self,
        clients: FrontierCalls,
        leases: Leases,
        tasks: Tasks,
        *,
        fetch: Callable[[Request], Awaitable[Response]],
        agent: str,
    ) -> None:
        """``agent`` is the user agent of requests if the crawl sets none."""
        self.book = self._book = clients.robots
        self._agent = agent
        self._leases = leases
        self._tasks = tasks
        self._fetch = fetch
        self._reserve, self._reacted, self._beat = clients.reserve, clients.reacted, clients.beat
        self._numbers = itertools.count()

    def is_needed(self, page: Page, moved: RobotsNote) -> bool:
        """Return whether a file has moved to a site that the grant of a page does not cover."""
        return not self._leases.sites.covers(page.lease, moved.target[1])

    async def find(self, page: Page, moved: RobotsNote) -> RobotsNote:
        """Return the note of the file that a ``moved`` one leads to.

        It is ``fetching``, with the seconds to wait, until a worker has fetched that file.

        More than five redirects in a row lead to no file (RFC 9309).
        """
        hops, url = moved.target
        return await self.file(page, url, hops)

    async def file(self, page: Page, url: str, hops: int = 0) -> RobotsNote:
        """Return the note of a file after ``hops`` redirects; see ``find``."""
        while True:
            file = file_of(url)
            (note,) = await self._book.read([file])
            if note.word == b"moved":
                more, url = note.target
                hops += more
                if hops > MAX_HOPS:
                    return _OPEN
                continue
            if note.word == b"fetching":
                return _PAUSE
            if note.word and not (note.word == b"later" and note.rests_s <= 0):
                return note
            return await self._buy(page, url, note)

    async def _buy(self, page: Page, url: str, before: RobotsNote) -> RobotsNote:
        """Have a file fetched as soon as its site allows it."""
        if not await self._book.claim(file_of(url), before.raw):
            return _PAUSE
        return await self._order(page, url, before)

    async def _order(
        self, page: Page, url: str, before: RobotsNote, gate: str | None = None
    ) -> RobotsNote:
        """Reserve the request for a claimed file, then fetch it; ``gate``: see ``reserve``."""
        file, takes_ms, within_ms = file_of(url), int(_TAKES_S * 1000), int(_WITHIN_S * 1000)
        place = await self._reserve(host_of(url), takes_ms=takes_ms, within_ms=within_ms, gate=gate)
        if place.wait_ms < 0:
            note = before if place.wait_ms == -1 else later(before)
            await (self._book.write(file, note) if note.word else self._book.forget(file))
            log.info("robots", url=url, outcome="later", site=place.site)
            return note if place.wait_ms < -1 else _UNGRANTED
        self._tasks.spawn(self._bring(page, url, before, place))
        return _PAUSE

    async def _bring(
        self,
        page: Page,
        url: str,
        before: RobotsNote,
        place: Reservation,
    ) -> None:
        """Fetch a file when its time has come; report the reaction of its site, and the file."""
        file = file_of(url)
        await asyncio.sleep(place.wait_ms / 1000)
        if not await self._is_valid(place):
            await self._book.forget(file)
            return
        token = f"robots-{next(self._numbers)}"
        lease = replace(
            page.lease,
            token=token,
            domain=place.site,
            gate=place.gate,
            partition=place.partition,
            entry=Entry(url=url, salt=token),
            issued_at=time.monotonic(),
        )
        lent = self._leases.admit(lease)
        lent.is_lent = True
        request = robots_request(url, lent, self._agent)
        request.meta["download_timeout"] = _TAKES_S * 0.8
        try:
            async with asyncio.timeout(_TAKES_S * 0.9):
                note = note_of(await self._fetch(request), before)
        except (DownloadCancelledError, TooLarge):
            note = EVERYTHING_FORBIDDEN
        except OtherMachine:
            await self._order(page, url, before, lent.located)
            return
        except GrantExpired:
            await self._book.forget(file)
            return
        except Exception as error:  # noqa: BLE001  whatever it is, there is no file now
            log.warning("robots", url=url, outcome="later", error=repr(error))
            note = later(before)
            if lent.left_at and lent.reaction is None:
                lent.reaction = reaction_to_failure(error)
        finally:
            self._leases.lose(place.partition, [lent.token])
        await self._report(url, note, place, lent.reaction)

    async def _is_valid(self, place: Reservation) -> bool:
        """Return whether the Redis that made a reservation still answers.

        An idle worker may have had no contact for seconds, and must not send a request then.
        """
        contact = self._leases.of(place.partition).contact
        if not contact.came_within(CONTACT_WITHIN_S / 2):
            left_at = time.monotonic()
            epoch = await self._beat(place.partition)
            self._leases.note_answer(place.partition, left_at, epoch)
        return contact.redis_epoch == place.redis_epoch

    async def _report(
        self, url: str, note: RobotsNote, place: Reservation, reaction: SiteReaction | None
    ) -> None:
        file = file_of(url)
        if reaction:
            await _reported(file, partial(self._reacted, place, reaction))
        if await _reported(file, partial(self._book.write, file, note)):
            log.info("robots", url=url, outcome=note.word.decode(), site=place.site)


async def _reported(file: str, report: Callable[[], Awaitable[None]]) -> bool:
    """Report something about a file that was fetched; False if that fails for _REPORTS_S.

    Redis may be unavailable for a while. A lost report must not prevent the other one: the site
    would not rest as it wants, or be asked for the file again.
    """

    def note(error: Exception, pause_s: float) -> None:
        log.info("robots", file=file, outcome="waiting", error=str(error), pause_s=pause_s)

    try:
        async with asyncio.timeout(_REPORTS_S):
            await until_available(report, backoff=Backoff(0.1, 1), on_wait=note)
    except Exception as error:  # noqa: BLE001  whatever it is, the other report may succeed
        log.warning("robots", file=file, outcome="not_reported", error=repr(error))
        return False
    return True
