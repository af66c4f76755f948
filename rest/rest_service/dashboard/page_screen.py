"""The screen about a fetched page: its content, its links, its request."""

from __future__ import annotations

import asyncio
import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from crawlstream.model.crawl import CrawlKey
from crawlstream.wire import jsontext
from crawlstream.wire.results import BODIES
from rest_service.dashboard.cleaned import LONGEST, PREVIEW_HEADERS, preview, readable
from rest_service.dashboard.render import path_of, render
from rest_service.http.access import Client
from rest_service.http.envelope import RequestRefused
from rest_service.service import Service, TheClient, TheCrawl, TheService
from rest_service.v2.crawls import crawl_state
from rest_service.v2.ordered import beginnings_of, beside, read_ordered
from rest_service.v2.reading import ends_of, one_record, read_page, start_of, wanted_by
from rest_service.v2.scrapes.pictures import picture_of

_PNG = b"\x89PNG\r\n\x1a\n"
_SHOWN = 100_000
"""Characters of a text that are shown at once."""
_BEFORE = 2_000
"""Characters shown before the first match, if the match is outside the part shown."""
_MARKED = 1_000
"""Matches that are marked."""
_LINKS_SHOWN = 1_000
_TABS = {
    "text": "Text",
    "preview": "Preview",
    "links": "Links",
    "headers": "Headers",
    "raw": "Raw",
}
_ENDS = {
    "older": "No earlier page of this crawl is in Kafka.",
    "newer": "This is the latest page of this crawl.",
    "far-older": "No earlier page of this crawl was found in time.",
    "far-newer": "No later page of this crawl was found in time.",
}
_ELSEWHERE = frozenset({"links", "request_headers", "response_headers"}) | BODIES
"""Fields that have a tab of their own, or are one of them in another form."""

router = APIRouter(prefix="/ui", include_in_schema=False)


@dataclass(frozen=True, slots=True)
class PageRecord:
    """A result as it was received, and its place in its topic."""

    place: tuple[int, int]
    """Partition and offset."""
    at_ms: int
    value: Mapping[str, Any]

    @property
    def key(self) -> CrawlKey:
        """The crawl that the page belongs to."""
        return CrawlKey(*(str(self.value.get(one)) for one in ("spiderid", "appid", "crawlid")))

    @property
    def kind(self) -> str:
        """Media type that the site sent, with its parameters."""
        headers = self.value.get("response_headers")
        told = headers if isinstance(headers, dict) else {}
        types = [text for name, text in told.items() if name.lower() == "content-type"]
        first = types[0] if types else ""
        return str(first[0] if isinstance(first, list) and first else first)

    @property
    def body(self) -> str:
        """Body as in the record: text, or base64."""
        return str(self.value.get("body") or "")

    @property
    def screenshot(self) -> Mapping[str, Any]:
        """Fields of its screenshot; empty: it has none."""
        told = self.value.get("screenshot")
        return told if isinstance(told, dict) else {}

    @property
    def is_binary(self) -> bool:
        """Return whether the body is binary."""
        return self.value.get("body_encoding") == "base64"

    @property
    def is_html(self) -> bool:
        """Return whether a browser would show the body as a page."""
        start = self.body[:1000].lstrip("\ufeff \t\r\n").lower()
        is_like = start.startswith(("<!doctype html", "<html"))
        return not self.is_binary and ("html" in self.kind.lower() or is_like)

    def text(self, tab: str) -> str:
        """Return the text that a tab shows of the body."""
        if tab == "text" and self.is_html:
            return readable(self.body)
        return self.body

    def path(self, **more: str) -> str:
        """Return the address of the page's screen."""
        partition, offset = self.place
        return f"/ui/page?{urlencode({'partition': partition, 'offset': offset, **more})}"


async def _page_of(
    service: TheService,
    client: TheClient,
    partition: Annotated[int, Query(ge=0)],
    offset: Annotated[int, Query(ge=0)],
) -> PageRecord:
    return _page_at(await one_record(service, client, "results", (partition, offset)))


ThePage = Annotated[PageRecord, Depends(_page_of)]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A part of a text, with the matches of a search."""

    parts: Sequence[tuple[bool, str]]
    """Pieces in order: whether it is a match, and its text."""
    matches: int
    start: int
    end: int
    length: int


def excerpt(text: str, q: str, start: int) -> Excerpt:
    """Return the part from ``start`` on, moved to the next match of ``q`` if that is farther."""
    pattern = re.compile(re.escape(q) if q else "(?!)", re.IGNORECASE)
    # Counted individually, without a list: a page may have millions.
    matches = sum(1 for _ in pattern.finditer(text))
    first = pattern.search(text, start)
    if first and first.start() >= start + _SHOWN:
        start = first.start() - _BEFORE
    end = min(len(text), start + _SHOWN)
    parts, at = [], start
    for one in islice(pattern.finditer(text, start, end), _MARKED):
        parts += [(False, text[at : one.start()]), (True, one[0])]
        at = one.end()
    parts.append((False, text[at:end]))
    return Excerpt([part for part in parts if part[1]], matches, start, end, len(text))


@router.get("/page")
async def page(
    client: TheClient,
    record: ThePage,
    *,
    tab: str = "text",
    q: Annotated[str, Query(max_length=1000)] = "",
    start: Annotated[int, Query(ge=0)] = 0,
    end: str = "",
) -> Response:
    """Show a page as it was received, in parts."""
    tab = tab if tab in _TABS else "text"
    shown = None
    if tab == "raw" or (tab == "text" and not record.is_binary):
        text = await asyncio.to_thread(record.text, tab)
        shown = await asyncio.to_thread(excerpt, text, q, start)
    return render(
        "page.html",
        "/ui/crawls",
        client=client,
        page=record,
        value=record.value,
        tab=tab,
        tabs=_TABS,
        q=q,
        shown_text=shown,
        links=_links(record, q) if tab == "links" else None,
        fields=_fields(record) if tab == "raw" else (),
        end=_ENDS.get(end, ""),
        is_long=len(record.body) > LONGEST,
        path_to=_path_to,
    )


@router.get("/page/preview")
async def page_preview(record: ThePage) -> Response:
    """Return the harmless parts of a page for a frame without rights, with headers of its own."""
    if not record.is_html:
        raise RequestRefused(422, "This page is not HTML.", code="no_preview")
    text = await asyncio.to_thread(preview, record.body, str(record.value.get("url")))
    return HTMLResponse(text, headers=PREVIEW_HEADERS)


@router.get("/page/screenshot")
async def page_screenshot(service: TheService, record: ThePage) -> Response:
    """Return the screenshot of a page."""
    body = record.value.get("screenshot_body")
    with suppress(ValueError):
        png = b64decode(body, validate=True) if isinstance(body, str) else None
        png = await picture_of(service.settings, record.screenshot, png)
        if png and png.startswith(_PNG):
            return Response(png, media_type="image/png")
    sentence = "The screenshot cannot be read: set CRAWLSTREAM_BODY_STORE as for crawlers."
    raise RequestRefused(404, sentence, code="no_screenshot")


@router.get("/page/older")
async def older(service: TheService, client: TheClient, record: ThePage) -> Response:
    """Redirect to the previous page of the crawl."""
    return await _lead(service, client, record, is_older=True)


@router.get("/page/newer")
async def newer(service: TheService, client: TheClient, record: ThePage) -> Response:
    """Redirect to the next page of the crawl."""
    return await _lead(service, client, record, is_older=False)


async def _lead(
    service: Service, client: Client, record: PageRecord, *, is_older: bool
) -> Response:
    key = record.key
    wanted = wanted_by(client, appid=key.appid, crawlid=key.crawlid, spiderid=key.spiderid)
    async with service.pages.of(client.name):
        before, behind = await beside(service, "results", record.place, record.at_ms)
        found = await read_ordered(
            service,
            "results",
            wanted,
            at=before if is_older else behind,
            bounds=await (beginnings_of if is_older else ends_of)(service, "results"),
            newest_first=is_older,
        )
    if not found.records:
        way = "older" if is_older else "newer"
        return _redirect(record.path(end=way if found.is_at_end else f"far-{way}"))
    return _redirect(_page_at(found.records[0]).path())


def _page_at(record: Mapping[str, Any]) -> PageRecord:
    place = (record["partition"], record["offset"])
    return PageRecord(place, record["at_ms"], record["value"])


@router.get("/page/of")
async def of(service: TheService, client: TheClient, key: TheCrawl, *, url: str) -> Response:
    """Redirect to the page that a crawl's latest run has of a URL, or to the URL's screen."""
    ids = {"appid": key.appid, "crawlid": key.crawlid, "spiderid": key.spiderid}
    wanted = wanted_by(client, url=url, **ids)
    one = await crawl_state(service, key)
    async with service.pages.of(client.name):
        start = await start_of(service, "results", one)
        found, _ = await read_page(service, "results", wanted, limit=1, start=start)
    if not found.records:
        return _redirect(f"/ui/url?{urlencode({'url': url, **ids})}")
    return _redirect(_page_at(found.records[0]).path())


def _redirect(path: str) -> Response:
    return RedirectResponse(path, status_code=303)


def _path_to(record: PageRecord, url: object) -> str:
    """Return the link of a URL on a page: to the page that the same crawl has of it."""
    return path_of(record.key, "/ui/page/of", url=str(url))


def _links(record: PageRecord, q: str) -> tuple[Sequence[tuple[str, str]], int]:
    """Return URL and text of the links that contain a text, and their number."""
    told = record.value.get("links")
    links = [
        (str(one.get("url")), " ".join(str(one.get("text") or "").split()))
        for one in (told if isinstance(told, list) else ())
        if isinstance(one, dict)
    ]
    part = q.casefold()
    fitting = [one for one in links if part in one[0].casefold() or part in one[1].casefold()]
    return fitting[:_LINKS_SHOWN], len(fitting)


def _fields(record: PageRecord) -> Sequence[tuple[str, object]]:
    """Return the other fields of the record; maps as JSON."""
    rest = {name: told for name, told in record.value.items() if name not in _ELSEWHERE}
    return [
        (name, jsontext.dumps(told).decode() if isinstance(told, dict) else told)
        for name, told in rest.items()
    ]
