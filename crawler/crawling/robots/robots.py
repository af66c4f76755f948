"""robots.txt: obeyed, fetched once a host for the whole cluster, and paid for like a page.

The first worker that holds a page of an unknown host and sets ``fetching`` spends that page's grant
on robots.txt and gives the page back. Other pages of the host wait for the answer as long as their
grants last, and are given back after that. A file that is on another site is bought there
(:mod:`crawling.robots.elsewhere`). A host that cannot be reached at all is the page's own
failure, so pages of a dead host fail soon and with a reason. A Crawl-delay is reported to the
frontier when the buyer is given back, and lowers the rate of the whole domain.

Reading a large file and judging by it take long and run in a thread, one at a time: heartbeats and
the pages of other hosts go on. Its domain is charged for the time.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial

import structlog
from scrapy import Request
from scrapy.exceptions import DownloadCancelledError
from scrapy.http import Response

from crawling.background import Tasks
from crawling.failures import RequestReplaced, TooLarge
from crawling.lease.expired import GrantExpired
from crawling.page.page import Page, Phase
from crawling.response.outcome import Outcomes
from crawling.robots.cache import KnownFiles
from crawling.robots.elsewhere import Elsewhere
from crawling.robots.grants import beside, left_s, within_grant
from crawling.robots.request import robots_request
from crawling.robots.robots_book import (
    EVERYTHING_FORBIDDEN,
    RobotsNote,
    note_instead,
    note_of,
    place_of,
)
from crawling.robots.rules import LIGHT_CHARACTERS, RobotsRules, rules_in, sitemaps_in
from crawling.robots.verdicts import Permission, Rest, Verdict, Verdicts
from crawlstream.model.crawl import Entry
from crawlstream.model.url import origin_of

_WAIT_MS = 500
"""Pause of a page whose robots.txt is being fetched."""
_MAX_LATER = 105
"""Refusals in a row until the host's pages fail: about a day."""

log = structlog.get_logger()


class Robots:
    """Decides whether a page may be fetched; fetches a robots.txt that the cluster lacks."""

    def __init__(
        self,
        outcomes: Outcomes,
        tasks: Tasks,
        elsewhere: Elsewhere,
        *,
        fetch: Callable[[Request], Awaitable[Response]],
        noting: Callable[[Page], AbstractContextManager[None]],
        agent: str,
    ) -> None:
        """``fetch`` downloads what the page in the request's meta pays for.

        ``noting`` is the flight recorder's: a file of rules may be expensive, or worse. ``agent``
        is the user agent of requests where a crawl names no other.
        """
        self._book = elsewhere.book
        self._elsewhere = elsewhere
        self._outcomes = outcomes
        self._endings = outcomes.endings
        self._leases = outcomes.leases
        self._tasks = tasks
        self._fetch = fetch
        self._noting = noting
        self.agent = self._agent = agent
        self._verdicts = Verdicts(outcomes, agent)
        self._known = KnownFiles[RobotsRules]()
        self.sitemaps_of = partial(sitemaps_in, self._known)
        self._under_way: dict[str, asyncio.Event] = {}
        self._reading, self._judging = asyncio.Lock(), asyncio.Lock()

    def screen(self, pages: Iterable[Page], let_through: Callable[[Page], None]) -> None:
        """Let pages through that may be fetched, now or once that is known; end the others."""
        unknown = []
        for page in pages:
            verdict = self._verdict(page)
            if verdict is Permission.UNKNOWN:
                unknown.append(page)
            else:
                self._end(page, verdict, let_through)
        if unknown:
            self._tasks.spawn(self._screen_later(unknown, let_through))

    def _end(self, page: Page, verdict: Verdict, let_through: Callable[[Page], None]) -> None:
        if isinstance(verdict, Entry):
            self._outcomes.move(page, verdict)
        elif isinstance(verdict, Rest):
            log.info("robots", outcome="rest", url=page.lease.entry.url, seconds=verdict.seconds)
            self._leases.release(page, rest_ms=math.ceil(verdict.seconds * 1000))
        elif verdict is Permission.ALLOWED:
            let_through(page)
        elif verdict is Permission.FORBIDDEN:
            self._endings.fail_soon(page, "robots")
        else:
            self._leases.release(page, delay_ms=_WAIT_MS)

    def _verdict(self, page: Page) -> Verdict:
        """Return the verdict that is possible without waiting."""
        profile, url = page.lease.profile, page.lease.entry.url
        if not self._verdicts.must_obey(profile):
            return Permission.ALLOWED
        origin = origin_of(url)
        if origin not in self._known:
            return Permission.UNKNOWN
        rules = self._known[origin]
        if rules is None:
            return Permission.ALLOWED
        if not rules.is_light:
            return Permission.UNKNOWN
        with self._noting(page):
            return self._verdicts.judge(page, rules, self._verdicts.look_up(page, rules))

    async def allows(self, page: Page, url: str) -> bool:
        """Return whether a further request to a page's own origin is allowed; not if unknown."""
        if not self._verdicts.must_obey(page.lease.profile):
            return True
        if time.monotonic() >= page.until:
            return False
        origin, agent = origin_of(page.lease.entry.url), self._verdicts.agent_of(page)
        if origin not in self._known:
            return False
        rules = self._known[origin]
        if rules is None:
            return True
        if rules.is_light:
            return rules.allow(url, agent)
        async with self._judging:
            return await beside(page, lambda: rules.allow(url, agent))

    async def _screen_later(
        self, pages: Sequence[Page], let_through: Callable[[Page], None]
    ) -> None:
        """Screen pages whose verdict needs waiting; no origin waits for another."""
        by_origin: dict[str, list[Page]] = defaultdict(list)
        for page in pages:
            by_origin[origin_of(page.lease.entry.url)].append(page)
        try:
            notes = await self._book.read(list(by_origin))
        except Exception as error:  # noqa: BLE001  the pages must come to some end
            log.warning("robots", outcome="unknown", error=repr(error))
            for page in pages:
                self._end(page, Permission.UNKNOWN, let_through)
            return
        await asyncio.gather(
            *(
                self._screen_origin(origin, some, note, let_through)
                for (origin, some), note in zip(by_origin.items(), notes, strict=True)
            )
        )

    async def _screen_origin(
        self, origin: str, pages: list[Page], note: RobotsNote, let_through: Callable[[Page], None]
    ) -> None:
        try:
            if origin not in self._known:
                await self._act(origin, pages, note)
        except Exception as error:  # noqa: BLE001  nor may one origin end the pages of others
            log.warning("robots", outcome="unknown", origin=origin, error=repr(error))
        for page in pages:
            if page.phase is Phase.WAITING:
                await self._judge(page, let_through)
            elif page.is_open:
                self._leases.release(page, delay_ms=_WAIT_MS)

    async def _judge(self, page: Page, let_through: Callable[[Page], None]) -> None:
        verdict = self._verdict(page)
        if verdict is Permission.UNKNOWN:
            verdict = await self._judged_beside(page)
        if page.phase is Phase.WAITING:
            self._end(page, verdict, let_through)

    async def _judged_beside(self, page: Page) -> Verdict:
        """UNKNOWN as well where the page's grant ran out while it waited for its turn."""
        origin = origin_of(page.lease.entry.url)
        async with self._judging:
            if origin not in self._known or left_s(page) <= 0:
                return Permission.UNKNOWN
            rules = self._known[origin]
            if rules is None:
                return Permission.ALLOWED
            found = await beside(page, lambda: self._verdicts.look_up(page, rules))
        return self._verdicts.judge(page, rules, found)

    async def _act(self, origin: str, pages: list[Page], note: RobotsNote) -> None:
        if note.word in {b"rules", b"open"}:
            await self._remember(origin, note, pages[0])
        elif note.word == b"later" and note.rests_s > 0:
            await self._put_off(pages, note)
        elif note.word == b"moved" and self._elsewhere.is_needed(pages[0], note):
            await self._look_elsewhere(origin, pages, note)
        elif note.word != b"fetching" and await self._book.claim(origin, note.raw):
            await self._buy(origin, pages, note)
        elif origin in self._under_way:
            await within_grant(self._under_way[origin], pages)

    async def _look_elsewhere(self, origin: str, pages: list[Page], moved: RobotsNote) -> None:
        """Go by the file of another site; no page goes on before that is known."""
        note = await self._elsewhere.find(pages[0], moved)
        if note.word == b"later":
            await self._put_off(pages, note)
        elif note.word == b"fetching":
            for page in pages:
                self._leases.release(page, delay_ms=int(note.left_s * 1000))
        else:
            rules = await self._remember(origin, note, pages[0])
            if delay_ms := rules.crawl_delay_ms(self._verdicts.agent_of(pages[0])) if rules else 0:
                self._leases.release_buyer(pages[0], delay_ms)
                for page in pages[1:]:
                    self._leases.release(page)

    async def _buy(self, origin: str, pages: list[Page], before: RobotsNote) -> None:
        """Fetch with the grant of the first page while the others wait for the answer."""
        arrived = self._under_way[origin] = asyncio.Event()
        buyer, *others = pages
        try:
            is_slower, _ = await asyncio.gather(
                self._fetch_for(buyer, origin, before), within_grant(arrived, others)
            )
        finally:
            arrived.set()
            del self._under_way[origin]
        for page in others if is_slower else ():
            # Granted before the Crawl-delay of this host was known.
            self._leases.release(page)

    async def _fetch_for(self, page: Page, origin: str, before: RobotsNote) -> bool:
        """Spend a page's grant on its robots.txt; whether that asks for pauses."""
        try:
            response = await self._fetch(
                robots_request(place_of(origin, before), page, self._agent)
            )
        except (DownloadCancelledError, TooLarge):
            note = EVERYTHING_FORBIDDEN
        except GrantExpired as error:
            await self._book.forget(origin)
            self._leases.release(page, delay_ms=error.delay_ms)
            return False
        except RequestReplaced as error:
            if isinstance(error.__cause__, Exception):
                return await self._unreachable(origin, page, error.__cause__)
            note = note_instead(error.request.url, place_of(origin, before), before)
        except Exception as error:  # noqa: BLE001  the page's own errback would get it as it is
            return await self._unreachable(origin, page, error)
        else:
            note = note_of(response, before)
        return await self._publish(origin, note, page)

    async def _unreachable(self, origin: str, page: Page, error: Exception) -> bool:
        """Count an attempt of the page: its host does not answer."""
        await self._book.forget(origin)
        await self._outcomes.give_up(page, error)
        return False

    async def _publish(self, origin: str, note: RobotsNote, page: Page) -> bool:
        """Publish the note to the cluster, wake the pages that wait here, give the buyer back."""
        await self._book.write(origin, note)
        if note.word == b"later":
            log.info("robots", origin=origin, outcome="later")
            await self._put_off([page], note)
            return False
        delay_ms = 0
        if note.word != b"moved":
            rules = await self._remember(origin, note, page)
            delay_ms = rules.crawl_delay_ms(self._verdicts.agent_of(page)) if rules else 0
        log.info("robots", origin=origin, outcome=note.word.decode(), crawl_delay_ms=delay_ms)
        self._leases.release_buyer(page, delay_ms)
        if not delay_ms and (arrived := self._under_way.get(origin)):
            arrived.set()
        return delay_ms > 0

    async def _put_off(self, pages: Iterable[Page], note: RobotsNote) -> None:
        for page in pages:
            if note.refusals >= _MAX_LATER:
                await self._endings.fail(page, "robots_unreachable")
            else:
                self._leases.release(page, delay_ms=int(note.rests_s * 1000))

    async def _remember(self, origin: str, note: RobotsNote, page: Page) -> RobotsRules | None:
        text, fetched_at = note.text(), time.monotonic() - note.age_s
        if len(text) <= LIGHT_CHARACTERS:
            with self._noting(page):
                return self._known.put(origin, rules_in(text, fetched_at), note.left_s)
        async with self._reading:
            if origin in self._known:
                return self._known[origin]
            rules = await beside(page, lambda: rules_in(text, fetched_at))
            return self._known.put(origin, rules, note.left_s)
