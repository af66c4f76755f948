"""Requests for made-up neighbours: whether a site answers for URLs that nothing links to.

Like a robots.txt, a neighbour is paid for by a page of the site: the page spends its grant on it
and is given back. So it is leased, paced and confined like a page, robots.txt is obeyed, and no
page of a crawl comes of it: no result, no link, and no entry in a ledger. What the site makes of it
(429, 503, silence) is reported to the frontier like that of a page, so it may take as long as one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager

import structlog
from scrapy import Request
from scrapy.http import HtmlResponse, Response

from crawling.background import Tasks
from crawling.lease.expired import GrantExpired
from crawling.lease.leases import Leases
from crawling.page.page import Page, Phase
from crawling.page.page_traits import read_traits
from crawling.page.parsed_page import ParsedPage
from crawling.robots.request import robots_request
from crawling.robots.robots import Robots
from crawling.waste.watch import MadeUpUrl, WasteWatch
from crawlstream.boot.failpoints import failpoint
from crawlstream.errors import InvalidUrl
from crawlstream.model.statuses import RETRIED
from crawlstream.model.web.address import resolved

_WAIT_MS = 500
"""Pause of a page whose grant ran out."""

log = structlog.get_logger()


class Neighbours:
    """Asks sites for made-up neighbours, with the grants of pages that may be fetched."""

    def __init__(
        self,
        waste: WasteWatch,
        robots: Robots,
        *,
        leases: Leases,
        tasks: Tasks,
        fetch: Callable[[Request], Awaitable[Response]],
        noting: Callable[[Page], AbstractContextManager[None]],
        agent: str,
    ) -> None:
        """For ``fetch``, ``noting`` and ``agent`` see ``Robots``."""
        self._waste = waste
        self._robots = robots
        self._leases = leases
        self._tasks = tasks
        self._fetch = fetch
        self._noting = noting
        self._agent = agent

    def admit(self, page: Page, let_through: Callable[[Page], None]) -> None:
        """Let a page through, or spend its grant; its crawl acts on verdicts."""
        is_free = not (page.lease.profile.purse or page.is_asked_for)
        question = self._waste.question(page) if is_free else None
        if question is None:
            let_through(page)
        else:
            self._tasks.spawn(self._ask(page, question, let_through))

    async def _ask(
        self, page: Page, question: MadeUpUrl, let_through: Callable[[Page], None]
    ) -> None:
        try:
            may_ask = await self._may_ask(page, question)
        except Exception as error:  # noqa: BLE001  the page must come to some end
            log.warning("guard", outcome="unasked", url=question.url, error=repr(error)[:200])
            may_ask = False
        if page.phase is not Phase.WAITING:
            if page.is_open:
                self._leases.release(page, delay_ms=_WAIT_MS)
        elif may_ask:
            await self._spend(page, question)
        else:
            let_through(page)

    async def _may_ask(self, page: Page, question: MadeUpUrl) -> bool:
        is_allowed = await self._robots.allows(page, question.url)
        return is_allowed and await self._waste.claim(page, question, self._leases.timeout_s)

    async def _spend(self, page: Page, question: MadeUpUrl) -> None:
        """Fetch a neighbour; without a response the site has said nothing of it."""
        is_there: bool | None = None
        try:
            response = await self._fetch(robots_request(question.url, page, self._agent))
            failpoint("after_fetch")
            is_there = self._is_there(page, question, response)
        except GrantExpired as error:
            self._leases.release(page, delay_ms=error.delay_ms or _WAIT_MS)
            return
        except Exception as error:  # noqa: BLE001  the site says nothing of this neighbour
            log.info("guard", outcome="no_answer", url=question.url, error=repr(error)[:200])
        self._leases.release(page)
        if is_there is None:
            await self._waste.no_answer(page, question)
        else:
            self._waste.answer(page, question, is_there=is_there)

    def _is_there(self, page: Page, question: MadeUpUrl, response: Response) -> bool | None:
        """Return None for a response that says nothing of the neighbour."""
        if response.status in RETRIED or self._leads_away(page, response):
            return None
        if not (200 <= response.status < 300 and isinstance(response, HtmlResponse)):
            return False
        with self._noting(page):
            text = read_traits(response, ParsedPage(response)).text
        return text is not None and text in question.texts

    def _leads_away(self, page: Page, response: Response) -> bool:
        """Return whether a response redirects to another site: a login, or who asks for consent."""
        location = response.headers.get(b"Location")
        if not 300 <= response.status < 400 or not location:
            return False
        try:
            target = resolved(response.url, location)
            return not (target and self._leases.sites.covers(page.lease, target))
        except InvalidUrl:
            return True
