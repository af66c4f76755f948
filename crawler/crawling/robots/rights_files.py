"""Files of sites about uses of their pages, fetched once a day and origin for the whole cluster.

The page that first needs one pays for it, as for robots.txt: it spends its grant on the file and is
given back, and the cluster's notes of robots.txt files keep it. But no page depends on such a file:
one that cannot be had says nothing, and is fetched again after an hour. One that robots.txt
forbids, or that is on another origin, is not fetched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import NamedTuple

import structlog
from scrapy import Request
from scrapy.exceptions import DownloadCancelledError
from scrapy.http import Response

from crawling.background import Tasks
from crawling.failures import TooLarge
from crawling.lease.expired import GrantExpired
from crawling.lease.leases import Leases
from crawling.page.page import Page, Phase
from crawling.page.rights import SiteSays
from crawling.page.scrapy_request import agent_of
from crawling.page.statements import LICENSE, Statement
from crawling.robots.cache import KnownFiles
from crawling.robots.grants import beside, within_grant
from crawling.robots.request import robots_request
from crawling.robots.robots import Robots
from crawling.robots.robots_book import (
    EVERYTHING_FORBIDDEN,
    RobotsBook,
    RobotsNote,
    later,
    no_file,
    note_of,
)
from crawling.robots.rules import LIGHT_CHARACTERS
from crawling.robots.terms import MOST_BYTES, SiteTerms, rsl_terms, tdm_terms
from crawlstream.model.url import origin_of
from crawlstream.model.web.address import address
from crawlstream.model.web.purposes import RSL, TDMREP

_AGAIN_S = 3600.0
"""Seconds after which a file that could not be had is fetched again."""
_FORBIDDEN_S = 600.0
"""Seconds for which a file is not looked for that robots.txt forbids."""
_ORIGINS_REMEMBERED = 10_000
_WAIT_MS = 500
"""Pause of a page that waits for a file."""

log = structlog.get_logger()


class _File(NamedTuple):
    kind: str
    url: str

    @property
    def name(self) -> str:
        return f"{self.kind} {self.url}"

    def read(self, text: bytes) -> SiteTerms | None:
        return (tdm_terms if self.kind == TDMREP else rsl_terms)(text, origin_of(self.url))


@lru_cache(_ORIGINS_REMEMBERED)
def _tdm_file(origin: str) -> _File:
    return _File(TDMREP, address(f"{origin}/.well-known/tdmrep.json"))


class RightsFiles:
    """Lets pages through once it is known what the files of their sites say of them."""

    def __init__(
        self,
        kinds: Sequence[str],
        robots: Robots,
        book: RobotsBook,
        *,
        leases: Leases,
        tasks: Tasks,
        fetch: Callable[[Request], Awaitable[Response]],
        noting: Callable[[Page], AbstractContextManager[None]],
        agent: str,
    ) -> None:
        """Fetch files of these ``kinds``; for the rest see ``Robots``."""
        self._kinds = kinds
        self._robots = robots
        self._book = book
        self._leases = leases
        self._tasks = tasks
        self._fetch = fetch
        self._noting = noting
        self._agent = agent
        self._known = KnownFiles[SiteTerms]()
        self._under_way: dict[str, asyncio.Event] = {}

    def screen(self, pages: Iterable[Page], let_through: Callable[[Page], None]) -> None:
        """Let pages through that may be fetched, with what is known of uses of them."""
        self._robots.screen(pages, lambda page: self._admit(page, let_through))

    def _admit(self, page: Page, let_through: Callable[[Page], None]) -> None:
        files = list(self._files_of(page))
        if all(self._is_settled(page, file) for file in files):
            self._tell(page, files)
            let_through(page)
        else:
            self._tasks.spawn(self._admit_later(page, files, let_through))

    def _files_of(self, page: Page) -> Iterator[_File]:
        origin = origin_of(page.lease.entry.url)
        if TDMREP in self._kinds:
            yield _tdm_file(origin)
        if RSL in self._kinds and page.site_says:
            named = (each.value for each in page.site_says.statements if each.name == LICENSE)
            own = (url for url in named if origin_of(url) == origin)
            yield from (_File(RSL, url) for url in list(own)[:1])

    def _is_settled(self, page: Page, file: _File) -> bool:
        return file.name in self._known or self._forbidden(page, file) in self._known

    def _forbidden(self, page: Page, file: _File) -> str:
        """Return the name under which it is known that a client may not fetch a file."""
        return f"{file.name} {agent_of(page.lease, self._agent)}"

    def _tell(self, page: Page, files: Iterable[_File]) -> None:
        """Add what files say of a page to what robots.txt says."""
        some = [self._known[file.name] for file in files if file.name in self._known]
        if found := [each for terms in some if terms for each in self._about(page, terms)]:
            robots = page.site_says or SiteSays((), None)
            page.site_says = SiteSays([*robots.statements, *found], robots.age_s)

    def _about(self, page: Page, terms: SiteTerms) -> Sequence[Statement]:
        with self._noting(page):
            return terms.about(page.lease.entry.url)

    async def _admit_later(
        self, page: Page, files: Sequence[_File], let_through: Callable[[Page], None]
    ) -> None:
        try:
            for file in files:
                if page.phase is Phase.WAITING and not self._is_settled(page, file):
                    await self._look_up(page, file)
        except Exception as error:  # noqa: BLE001  the page must come to some end
            log.warning("rights", outcome="unknown", url=page.lease.entry.url, error=repr(error))
        is_settled = all(self._is_settled(page, file) for file in files)
        if page.phase is Phase.WAITING and is_settled:
            self._tell(page, files)
            let_through(page)
        elif page.is_open:
            self._leases.release(page, delay_ms=_WAIT_MS)

    async def _look_up(self, page: Page, file: _File) -> None:
        """Have a file known, or as good as; a page that is sent for it is given back."""
        if arrived := self._under_way.get(file.url):
            await within_grant(arrived, [page])
            return
        (note,) = await self._book.read([file.url])
        if note.word in {b"rules", b"open", b"later"}:
            await self._remember(page, file, note)
        elif note.word != b"fetching":
            url = note.target[1] if note.word == b"moved" else file.url
            if not await self._robots.allows(page, url):
                self._known.put(self._forbidden(page, file), None, _FORBIDDEN_S)
            elif await self._book.claim(file.url, note.raw):
                await self._buy(page, file, note, url=url)

    async def _buy(self, page: Page, file: _File, before: RobotsNote, *, url: str) -> None:
        """Fetch a file with the grant of a page; other pages that need it wait."""
        arrived = self._under_way[file.url] = asyncio.Event()
        try:
            note = await self._fetched(page, before, url)
            if note is None:
                await self._book.forget(file.url)
            else:
                await self._book.write(file.url, note)
                log.info("rights", url=url, outcome=note.word.decode())
                if note.word != b"moved":
                    await self._remember(page, file, note)
        finally:
            arrived.set()
            del self._under_way[file.url]
        self._leases.release(page, delay_ms=0 if note else _WAIT_MS)

    async def _fetched(self, page: Page, before: RobotsNote, url: str) -> RobotsNote | None:
        """Return the note after a response; None: the grant of the page had run out."""
        try:
            request = robots_request(url, page, self._agent, MOST_BYTES)
            note = note_of(await self._fetch(request), before)
        except (DownloadCancelledError, TooLarge):
            return EVERYTHING_FORBIDDEN  # It says nothing, for a day.
        except GrantExpired:
            return None
        except Exception as error:  # noqa: BLE001  whatever it is, there is no file now
            log.warning("rights", url=url, outcome="later", error=repr(error))
            note = later(before)
        if note.word == b"later":
            return RobotsNote(note.raw, _AGAIN_S)
        is_elsewhere = note.word == b"moved" and origin_of(note.target[1]) != origin_of(url)
        return no_file() if is_elsewhere else note

    async def _remember(self, page: Page, file: _File, note: RobotsNote) -> None:
        text = note.text()
        if len(text) <= LIGHT_CHARACTERS:
            with self._noting(page):
                terms = file.read(text)
        else:
            terms = await beside(page, lambda: file.read(text))
        self._known.put(file.name, terms, note.left_s)
