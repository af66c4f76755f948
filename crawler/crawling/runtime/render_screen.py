"""Screens pages of crawls with automatic rendering: those that need a browser are handed over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import structlog
from scrapy.http import Response

from crawling.autorender.choice import RenderChoice
from crawling.background import Tasks
from crawling.lease.leases import Leases
from crawling.page.page import Page, Phase
from crawling.robots.screen import Screening
from crawlstream.model.effects import UNSENT
from crawlstream.model.egress.render import is_lane, lane_of, spider_of

_UNSENT_YET = frozenset({Phase.WAITING, Phase.SPARE})

log = structlog.get_logger()


class RenderScreen:
    """Hands pages over to crawlers with a browser, and screens the others as before.

    Its entry goes to the other lane as it is, in one step of the frontier: it stays one page with
    one ``id``, and waits there whatever becomes of this process. A crawler with a browser keeps
    all pages; their links wait for crawlers without.
    """

    def __init__(
        self, rest: Screening, choice: RenderChoice, leases: Leases, tasks: Tasks, *, lane: str
    ) -> None:
        """``lane``: the one of this process."""
        self._rest = rest
        self._choice = choice
        self._leases = leases
        self._tasks = tasks
        self._spider = spider_of(lane)
        self._renders = is_lane(lane)

    def screen(self, pages: Iterable[Page], let_through: Callable[[Page], None]) -> None:
        """Let pages through that may be fetched here; hand the others over.

        Pages of sites of which nothing is known at the moment wait for one reply of Redis.
        """
        others, chosen = list[Page](), list[Page]()
        for page in pages:
            (chosen if is_auto(page) else others).append(page)
        if chosen and not self._choice.are_known(chosen):
            self._tasks.spawn(self._read_first(chosen, let_through))
            chosen = []
        self._rest.screen([*others, *self._kept(chosen)], let_through)

    async def _read_first(self, pages: Sequence[Page], let_through: Callable[[Page], None]) -> None:
        await self._choice.read(pages)
        left = [page for page in pages if page.phase in _UNSENT_YET]
        self._rest.screen(self._kept(left), let_through)

    def _kept(self, pages: Iterable[Page]) -> list[Page]:
        kept: list[Page] = []
        for page in pages:
            if self._renders:
                page.links_wait_for = self._spider
            elif may_be_rendered(page) and (why := self._choice.why_rendered(page)):
                self._hand_over(page, why, sent_ms=UNSENT)
                continue
            kept.append(page)
        return kept

    def look(self, page: Page, response: Response) -> bool:
        """Look at the response of a page, which may be rendered; return whether it goes on here."""
        if not is_auto(page):
            return True
        if self._renders:
            self._compare(page, response)
        elif may_be_rendered(page) and self._choice.is_shell(page, response):
            self._hand_over(page, "shell")
            return False
        return True

    def _compare(self, page: Page, response: Response) -> None:
        sent, page.sent_document = page.sent_document, None
        if sent is None or page.render is None:
            return
        page.render = {**page.render, **self._choice.compare(page, sent, response)}

    def _hand_over(self, page: Page, why: str, **how: int) -> None:
        log.info("release", url=page.lease.entry.url, reason=f"render_{why}")
        self._leases.release(page, spiderid=lane_of(self._spider, renders=True), **how)


def is_auto(page: Page) -> bool:
    """Return whether the crawl of a page has automatic rendering."""
    wish = page.lease.profile.render
    return wish is not None and wish.get("auto") is True


def may_be_rendered(page: Page) -> bool:
    """Return whether a browser could fetch a page."""
    entry = page.lease.entry
    return entry.method == "GET" and not entry.body and not entry.is_sitemap
