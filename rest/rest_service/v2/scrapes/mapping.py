"""Making a list of a site's URLs: its files are scraped, breadth first and within bounds."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from crawlstream.errors import InvalidRequest, Unavailable
from crawlstream.model.delivered import Delivered
from crawlstream.model.event import PageReply
from crawlstream.model.url import origin_of
from crawlstream.model.web.address import address
from crawlstream.wire import jsontext
from crawlstream_extract.extract import SITEMAP, ExtractRequest
from crawlstream_frontier.scrapes.scrape_names import comes_until
from rest_service.http.access import Client
from rest_service.http.envelope import RequestRefused
from rest_service.service import Service
from rest_service.v2.scrapes.admission import ScrapePlan, begin
from rest_service.v2.scrapes.map_order import MapOrder
from rest_service.v2.scrapes.page_records import page_in, read_record
from rest_service.v2.scrapes.recent import recent_reply
from rest_service.v2.scrapes.site_urls import SiteUrls
from rest_service.v2.scrapes.waiting_source import waiting_parts

MOST_FILES, MOST_BYTES, MOST_DEPTH = 200, 64 << 20, 3
"""Sitemaps of one list: their number, the bytes of all, and indexes in one another."""
MAKING_S = 600.0
"""Seconds after which a list is returned as it is."""
_AT_A_TIME = 4
"""Files of a list that are scraped at the same time."""
_MOST_PROBLEMS = 50
_BUSY = frozenset({"site_busy", "too_many_scrapes"})
"""Refusals that pass by themselves."""


class SiteMapping:
    """Makes one list."""

    def __init__(self, order: MapOrder, plan: ScrapePlan, service: Service, client: Client) -> None:
        """``plan`` is the scrape of the page that was asked for."""
        self._order, self._service, self._client = order, service, client
        self._appid, self._url = plan.appid, plan.request.url
        self._urls = SiteUrls(self._url, order.match)
        self._turns = asyncio.Semaphore(_AT_A_TIME)
        self._until = time.monotonic() + MAKING_S
        self._read: list[str] = []
        self._bytes = 0
        self._cut: Counter[str] = Counter()
        self._problems: list[str] = []
        self._refused: RequestRefused | None = None
        self._is_read = False
        self._adding = asyncio.Lock()

    async def run(self) -> bytes:
        """Return the list as JSON; raise what has kept all of its sources from being read."""
        wanted = self._order.sources
        work = [self._sitemaps()] if {"robots", "sitemaps"} & {*wanted} else []
        work += [self._links()] if "links" in wanted else []
        work += [self._waiting()] if "frontier" in wanted else []
        await asyncio.gather(*work)
        if self._refused and not self._is_read:
            raise self._refused
        return await asyncio.to_thread(self._told)

    def _told(self) -> bytes:
        found = self._urls.best(self._order.limit)
        cut = dict(self._cut)
        if too_many := cut.get("too_many", 0) + self._urls.too_many:
            cut["too_many"] = too_many
        return jsontext.dumps(
            {
                "urls": found,
                "total": len(self._urls),
                "complete": not (cut or self._problems) and len(self._urls) == len(found),
                "sitemaps": self._read,
                "cut": cut,
                "problems": self._problems,
            }
        )

    async def _waiting(self) -> None:
        appids = self._order.applications(self._client)
        try:
            async with asyncio.timeout(max(0, self._until - time.monotonic())):
                async for part in waiting_parts(self._service.frontier, self._url, appids):
                    await self._add("frontier", [(url, "", "") for url in part.urls])
                    for reason, count in part.cut.items():
                        self._note(reason, count)
                self._is_read = True
        except TimeoutError:
            self._problem("frontier", "timeout")
        except Unavailable as error:
            if not self._order.scrapes:
                raise
            self._problem("frontier", str(error))

    async def _links(self) -> None:
        links = await self._made(self._url, "links")
        if links is not None:
            await self._add("links", [(one["url"], "", one["text"]) for one in links])

    async def _sitemaps(self) -> None:
        """Read the sitemaps that robots.txt names, or the usual one, and those that they list."""
        origin = origin_of(self._url)
        level: Sequence[str] = ()
        if "robots" in self._order.sources:
            found = await self._made(address(f"{origin}/robots.txt"), SITEMAP, is_optional=True)
            level = self._ours(found["sitemaps"] if found else [])
        is_usual = not level and "sitemaps" in self._order.sources
        if is_usual:
            level = [address(f"{origin}/sitemap.xml")]
        seen = set[str]()
        for _ in range(MOST_DEPTH):
            level = [one for one in dict.fromkeys(level) if one not in seen]
            room = MOST_FILES - len(seen)
            self._note("too_many_files", len(level) - room)
            level = level[:room]
            seen |= {*level}
            listed = [self._sitemap(one, is_optional=is_usual) for one in level]
            level = self._ours([one for some in await asyncio.gather(*listed) for one in some])
            is_usual = False
        self._note("too_deep", len(level))

    async def _sitemap(self, url: str, *, is_optional: bool) -> Sequence[str]:
        """Read one sitemap, and return those that it lists."""
        if self._bytes > MOST_BYTES:
            self._note("too_many_bytes", 1)
            return ()
        found = await self._made(url, SITEMAP, is_optional=is_optional)
        if found is None or (is_optional and "sitemap_unread" in found["refused"]):
            return ()
        self._read.append(url)
        for reason in ("too_many", "sitemap_cut", "sitemap_unread"):
            self._note(reason, found["refused"].get(reason, 0))
        pages = [(page, lastmod, "") for page, lastmod in found["pages"]]
        await self._add("sitemap", pages)
        return list(found["sitemaps"])

    async def _add(self, source: str, entries: Sequence[tuple[str, str, str]]) -> None:
        """Add URLs in a thread: there may be 50 000 of them."""
        async with self._adding:
            await asyncio.to_thread(self._urls.add, source, entries)

    def _ours(self, urls: Sequence[str]) -> Sequence[str]:
        return [one for one in urls if self._urls.is_ours(one)]

    def _note(self, reason: str, count: int) -> None:
        if count > 0:
            self._cut[reason] += count

    async def _made(self, url: str, form: str, *, is_optional: bool = False) -> Any:
        """Scrape a file and return a format of it; None: there is none, see the problems."""
        async with self._turns:
            try:
                async with asyncio.timeout(max(0, self._until - time.monotonic())):
                    return await self._scraped(url, form, is_optional=is_optional)
            except TimeoutError:
                self._problem(url, "timeout")
            except (InvalidRequest, Unavailable) as error:
                self._problem(url, str(error))
            except RequestRefused as refused:
                self._refused = refused
                self._problem(url, str(refused.details.get("code", refused.status)))
        return None

    async def _scraped(self, url: str, form: str, *, is_optional: bool) -> Any:
        reply = await self._reply(url)
        if reply is None or reply.place is None:
            self._problem(url, reply.reason if reply else "timeout")
            return None
        self._is_read = True
        if not 200 <= (reply.status_code or 0) < 300:
            if not (is_optional and reply.status_code in {404, 410}):
                self._problem(url, f"status {reply.status_code}")
            return None
        size = reply.body_size or 0
        name = self._client.name
        async with self._service.places.of(name), self._service.scrape_bytes.of(name, size):
            record = await read_record(self._service, reply)
            page = None if record is None else await page_in(record)
            if page is None:
                self._problem(url, "gone_from_kafka")
                return None
            self._bytes += len(page.body)
            self._note("sitemap_cut", int(form == SITEMAP and page.body_truncated))
            return await self._extracted(page, url, form)

    async def _extracted(self, page: Delivered, url: str, form: str) -> Any:
        made = await self._service.extraction.run(
            ExtractRequest(
                body=page.body,
                encoding=page.encoding,
                mime=page.mime,
                # It is read as robots.txt by its name, which a redirect may change.
                url=url if url.endswith("/robots.txt") else page.response_url,
                formats=[form],
            )
        )
        for problem in made.problems:
            self._problem(url, problem)
        return made.formats.get(form)

    async def _reply(self, url: str) -> PageReply | None:
        """Return the reply about a file: a recent one, or that of a scrape."""
        order = self._order.scrape_of(url, self._appid)
        name = self._service.scrape_names.new(order.deadline)
        plan = ScrapePlan.of(order, name, self._service, self._client)
        if recent := recent_reply(plan, self._service):
            return recent
        while True:
            try:
                flight = await begin(order, self._service, self._client)
                break
            except RequestRefused as refused:
                if refused.details.get("code") not in _BUSY:
                    raise
                await asyncio.sleep(max(0.1, refused.retry_after_s))
        left_s = comes_until(flight.id) + 5 - time.time()
        return await self._service.pages_replied.wait(flight.id, left_s)

    def _problem(self, url: str, why: str) -> None:
        if len(self._problems) < _MOST_PROBLEMS:
            self._problems.append(f"{url}: {why}")
