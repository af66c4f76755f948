"""Permission for further requests of pages to other origins, by the robots.txt of each.

An origin without pages in a crawl has no worker that has fetched its file. Its site then
reserves the request for it (:mod:`crawling.robots.elsewhere`), once for the whole cluster.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from functools import partial

from crawling.page.page import Page
from crawling.robots.cache import KnownFiles
from crawling.robots.elsewhere import Elsewhere
from crawling.robots.grants import beside
from crawling.robots.robots import Robots
from crawling.robots.robots_book import RobotsNote
from crawling.robots.rules import RobotsRules, rules_in
from crawling.robots.verdicts import Verdicts
from crawlstream.model.url import origin_of
from crawlstream.model.web.address import address

_FIRST_LOOK_S, _LONGEST_LOOK_S = 0.1, 2.0
"""Seconds between two looks for a file that is being fetched."""


@dataclass(slots=True)
class _Look:
    """A search for the file of an origin, and how many pages wait for it."""

    task: asyncio.Task[bool]
    pages: int = 0


class FurtherRobots:
    """Rules of all origins that further requests go to."""

    def __init__(self, robots: Robots, elsewhere: Elsewhere, verdicts: Verdicts) -> None:
        self._robots = robots
        self._verdicts = verdicts
        self._elsewhere = elsewhere
        self._known = KnownFiles[RobotsRules]()
        self._turn = asyncio.Lock()
        self._looks: dict[str, _Look] = {}

    def knows(self, page: Page, url: str) -> bool:
        """Return whether the rules for a URL are known; those of the page's own origin are."""
        origin = origin_of(url)
        return self._is_simple(page, origin) or origin in self._known

    def _is_simple(self, page: Page, origin: str) -> bool:
        """Return whether no other file is needed: it is the page's origin, or none is obeyed."""
        is_own = origin == origin_of(page.lease.entry.url)
        return is_own or not self._verdicts.must_obey(page.lease.profile)

    async def learn(self, page: Page, url: str) -> bool:
        """Wait until the rules for a URL are known; return False if they cannot be fetched.

        The caller cancels it after its own timeout. One look serves all pages that wait for a file.
        """
        if self.knows(page, url):
            return True
        origin = origin_of(url)
        if (look := self._looks.get(origin)) is None:
            look = self._looks[origin] = _Look(asyncio.ensure_future(self._look(page, origin)))
        look.pages += 1
        try:
            return await asyncio.shield(look.task)
        finally:
            look.pages -= 1
            if not look.pages:
                look.task.cancel()
                self._looks.pop(origin, None)

    async def _look(self, page: Page, origin: str) -> bool:
        """Look for a file until it is known; return False if it cannot be fetched now."""
        file, pause_s = address(f"{origin}/robots.txt"), _FIRST_LOOK_S
        while origin not in self._known:
            note = await self._elsewhere.file(page, file)
            if note.word in {b"rules", b"open"}:
                await self._keep(page, origin, note)
            elif note.word != b"fetching":
                return False
            else:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_LOOK_S)
        return True

    async def allows(self, page: Page, url: str) -> bool:
        """Return whether a further request is allowed; not if its rules are unknown."""
        origin = origin_of(url)
        if self._is_simple(page, origin):
            return await self._robots.allows(page, url)
        if origin not in self._known:
            return False
        rules = self._known[origin]
        if rules is None:
            return True
        agent = self._verdicts.agent_of(page)
        if rules.is_light:
            return rules.allow(url, agent)
        async with self._turn:
            return await beside(page, partial(rules.allow, url, agent))

    async def _keep(self, page: Page, origin: str, note: RobotsNote) -> None:
        text, fetched_at = note.text(), time.monotonic() - note.age_s
        async with self._turn:
            if origin not in self._known:
                rules = await beside(page, lambda: rules_in(text, fetched_at))
                self._known.put(origin, rules, note.left_s)
