"""robots.txt: obeyed, fetched once a host for the whole cluster, and paid for like a page.

Whoever holds a page of an unknown host and sets ``fetching`` first spends that page's grant on
robots.txt and gives the page back. Other pages of the host wait for the answer as long as their
grants last, and are given back after that. A host that cannot be reached at all is the page's own
failure, so a dead host ends its pages by name and soon. A Crawl-delay is told to the frontier with
the buyer's return, and lowers the rate of the whole domain.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from enum import Enum, auto

import structlog
from protego import Protego
from scrapy import Request
from scrapy.exceptions import DownloadCancelledError
from scrapy.http import Response

from crawling.downloader import Replaced
from crawling.failures import TooLarge
from crawling.holds import START_BY_S, GrantExpired
from crawling.outcome import Outcomes
from crawling.pages import Page, Phase
from crawling.robots_book import (
    EVERYTHING_FORBIDDEN,
    MAX_BYTES,
    Note,
    RobotsBook,
    note_instead,
    note_of,
    place_of,
)
from crawling.robots_known import KnownRobots
from crawling.tasks import Tasks
from crawling.to_scrapy import PAGE, agent_of
from crawlstream.model.crawl import Profile
from crawlstream.model.url import origin_of

ROBOTS = "crawlstream_robots"
"""Key in ``request.meta`` that marks a request for robots.txt."""

_DOWNLOAD_MAX_BYTES = 4 * MAX_BYTES
"""A larger file is no robots.txt; its host is taken to forbid everything."""
_WAIT_MS = 500
"""Pause of a page that meets a fetch under way."""
_MAX_LATER = 105
"""Refusals in a row until the host's pages fail: about a day."""
_LONGEST_DELAY_S = 300.0
"""A longer Crawl-delay is cut to this; so few pages would be no crawl."""

log = structlog.get_logger()


class Verdict(Enum):
    """What is known about a page's permission."""

    ALLOWED = auto()
    FORBIDDEN = auto()
    UNKNOWN = auto()


class Robots:
    """Says whether a page may be fetched; buys the robots.txt that nobody has yet."""

    def __init__(
        self,
        book: RobotsBook,
        outcomes: Outcomes,
        tasks: Tasks,
        fetch: Callable[[Request], Awaitable[Response]],
        *,
        noting: Callable[[Page], AbstractContextManager[None]],
        agent: str,
    ) -> None:
        """``fetch`` downloads what the page in the request's meta pays for.

        ``noting`` is the flight recorder's: a file of rules may be dear, or worse. ``agent`` is
        what requests call themselves where a crawl says nothing else.
        """
        self._book = book
        self._outcomes = outcomes
        self._endings = outcomes.endings
        self._holds = outcomes.holds
        self._settings = outcomes.settings
        self._tasks = tasks
        self._fetch = fetch
        self._noting = noting
        self._agent = agent
        self._known = KnownRobots()
        self._under_way: dict[str, asyncio.Event] = {}

    def screen(self, pages: Iterable[Page], let_through: Callable[[Page], None]) -> None:
        """Let pages through that may be fetched, now or once that is known; end the others."""
        unknown = []
        for page in pages:
            verdict = self.verdict(page)
            if verdict is Verdict.ALLOWED:
                let_through(page)
            elif verdict is Verdict.FORBIDDEN:
                self._endings.fail_soon(page, "robots")
            else:
                unknown.append(page)
        if unknown:
            self._tasks.spawn(self._screen_later(unknown, let_through))

    async def _screen_later(
        self, pages: Sequence[Page], let_through: Callable[[Page], None]
    ) -> None:
        await self._find_out(pages)
        self.screen([page for page in pages if page.phase is Phase.WAITING], let_through)

    def verdict(self, page: Page) -> Verdict:
        """What can be said at once."""
        profile, url = page.hold.profile, page.hold.entry.url
        if not self._must_obey(profile):
            return Verdict.ALLOWED
        origin = origin_of(url)
        if origin not in self._known:
            return Verdict.UNKNOWN
        rules = self._known[origin]
        if rules is None:
            return Verdict.ALLOWED
        with self._noting(page):
            is_allowed = rules.can_fetch(url, self._agent_of(page))
        return Verdict.ALLOWED if is_allowed else Verdict.FORBIDDEN

    def _agent_of(self, page: Page) -> str:
        return agent_of(page.hold, self._agent)

    def _must_obey(self, profile: Profile) -> bool:
        if profile.obey_robots is None:
            return self._settings.ROBOTSTXT_OBEY
        return profile.obey_robots or not self._settings.allow_ignore_robots

    async def _find_out(self, pages: Iterable[Page]) -> None:
        """Make the verdict of some pages known; pages for which it stays unknown are ended."""
        by_origin: dict[str, list[Page]] = defaultdict(list)
        for page in pages:
            by_origin[origin_of(page.hold.entry.url)].append(page)
        try:
            notes = await self._book.read(list(by_origin))
            await asyncio.gather(*map(self._try, by_origin, by_origin.values(), notes))
        except Exception as error:  # noqa: BLE001  the pages must come to some end
            log.warning("robots", outcome="unknown", error=repr(error))
        for page in (page for some in by_origin.values() for page in some):
            if page.is_open and self.verdict(page) is Verdict.UNKNOWN:
                self._holds.release(page, delay_ms=_WAIT_MS)

    async def _try(self, origin: str, pages: list[Page], note: Note) -> None:
        try:
            await self._act(origin, pages, note)
        except Exception as error:  # noqa: BLE001  nor may one origin end the pages of others
            log.warning("robots", outcome="unknown", origin=origin, error=repr(error))

    async def _act(self, origin: str, pages: list[Page], note: Note) -> None:
        if note.word in {b"rules", b"open"}:
            self._remember(origin, note, pages[0])
        elif note.word == b"later" and note.rests_s > 0:
            await self._put_off(pages, note)
        elif note.word != b"fetching" and await self._book.claim(origin, note.raw):
            await self._buy(origin, pages, note)
        elif origin in self._under_way:
            await _within_grant(self._under_way[origin], pages)

    async def _buy(self, origin: str, pages: list[Page], before: Note) -> None:
        """Fetch with the grant of the first page while the others wait for the answer."""
        arrived = self._under_way[origin] = asyncio.Event()
        buyer, *others = pages
        try:
            is_slower, _ = await asyncio.gather(
                self._fetch_for(buyer, origin, before), _within_grant(arrived, others)
            )
        finally:
            arrived.set()
            del self._under_way[origin]
        for page in others if is_slower else ():
            # Granted before anybody knew how slowly this host is to be asked.
            self._holds.release(page)

    async def _fetch_for(self, page: Page, origin: str, before: Note) -> bool:
        """Spend a page's grant on its robots.txt; whether that asks for pauses."""
        try:
            response = await self._fetch(self._request(place_of(origin, before), page))
        except (DownloadCancelledError, TooLarge):
            note = EVERYTHING_FORBIDDEN
        except Replaced as error:
            note = note_instead(error.request.url, place_of(origin, before), before)
        except GrantExpired:
            await self._book.forget(origin)
            self._holds.release(page)
            return False
        except Exception as error:  # noqa: BLE001  the page's own errback would get it as it is
            await self._book.forget(origin)
            await self._outcomes.give_up(page, error)
            return False
        else:
            note = note_of(response, before)
        return await self._publish(origin, note, page)

    def _request(self, url: str, page: Page) -> Request:
        return Request(
            url,
            headers={"User-Agent": self._agent_of(page)},
            meta={PAGE: page, ROBOTS: True, "download_maxsize": _DOWNLOAD_MAX_BYTES},
            priority=page.hold.priority,
            dont_filter=True,
        )

    async def _publish(self, origin: str, note: Note, page: Page) -> bool:
        """Tell the cluster, wake the pages that wait here, and give the buyer back."""
        await self._book.write(origin, note)
        if note.word == b"later":
            log.info("robots", origin=origin, outcome="later")
            await self._put_off([page], note)
            return False
        delay_ms = 0
        if note.word != b"moved":
            delay_ms = _crawl_delay_ms(self._remember(origin, note, page), self._agent_of(page))
        log.info("robots", origin=origin, outcome=note.word.decode(), crawl_delay_ms=delay_ms)
        self._holds.release_buyer(page, delay_ms)
        if not delay_ms and (arrived := self._under_way.get(origin)):
            arrived.set()
        return delay_ms > 0

    async def _put_off(self, pages: Iterable[Page], note: Note) -> None:
        for page in pages:
            if note.refusals >= _MAX_LATER:
                await self._endings.fail(page, "robots_unreachable")
            else:
                self._holds.release(page, delay_ms=int(note.rests_s * 1000))

    def _remember(self, origin: str, note: Note, page: Page) -> Protego | None:
        with self._noting(page):
            return self._known.put(origin, note)


def _crawl_delay_ms(rules: Protego | None, agent: str) -> int:
    """The pause between two requests that a file asks an agent to keep; 0: it does not."""
    delay_s = rules.crawl_delay(agent) if rules else None
    return int(min(delay_s, _LONGEST_DELAY_S) * 1000) if delay_s and delay_s > 0 else 0


async def _within_grant(arrived: asyncio.Event, pages: Sequence[Page]) -> None:
    """Wait for an answer as long as the grants of the waiting pages last."""
    if pages:
        ends_at = min(page.hold.issued_at for page in pages) + START_BY_S * 0.8
        try:
            async with asyncio.timeout(max(ends_at - time.monotonic(), 0)):
                await arrived.wait()
        except TimeoutError:
            pass
