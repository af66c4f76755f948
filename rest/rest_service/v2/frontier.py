"""``/v2/frontier``: all records of a URL, in the frontier and on the topics.

The frontier knows where a page waits, but of a finished page only that it was seen. Its outcome is
on the topics of results and events, which are not sorted by URL: of each, only the latest records
are searched. Queries for the records themselves (``/v2/results?url=``) search more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from crawlstream.model.crawl import CrawlKey
from crawlstream.wire import views
from rest_service.http.access import Client
from rest_service.http.envelope import success
from rest_service.http.parameters import StrictRoute
from rest_service.service import Service, TheClient, TheService, named_crawl
from rest_service.v2.crawls import crawl_state
from rest_service.v2.reading import (
    Name,
    RecordFilter,
    RecordPage,
    ends_of,
    is_about,
    read,
    wanted_by,
)

LOOKED_AT = 5_000
"""Latest records of a topic that are searched."""
_LOOKING_S = 5.0
_SHOWN = 50
"""Latest records of a topic that are returned for a URL."""
_LONGEST_CHAIN = 100
_BREATH = 50
"""Records between two pauses for other tasks: to read one takes about 0.1 ms."""
_RESULT = (
    *("id", "appid", "crawlid", "spiderid", "run", "url", "response_url", "status_code", "depth"),
    *("attempt", "latency_ms", "body_size", "timestamp", "parent_url", "seed_url"),
    "redirect_urls",
)

router = APIRouter(prefix="/v2", tags=["cluster"], route_class=StrictRoute)

Url = Annotated[str, Query(min_length=1, max_length=10_000, examples=["https://example.com/page"])]


@dataclass(slots=True)
class UrlRecords:
    """Records of a topic about a URL."""

    found: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_SHOWN))
    parents: dict[tuple[object, ...], str | None] = field(default_factory=dict)
    """Parent by run and URL, of all pages searched: a page is found before its children."""
    looked_at: int = 0
    is_whole: bool = True
    """True if every record of the topic was searched."""

    def note(self, name: Name, record: Mapping[str, Any], url: str) -> None:
        """Add a record in the form that clients see."""
        value: Any = record["value"]
        self.looked_at += 1
        if name == "results":
            self.parents[(*_run_of(value), value.get("url"))] = value.get("parent_url")
        if is_about(value, url):
            self.found.append({**record, "value": value})

    def chain(self, value: Mapping[str, Any]) -> Sequence[str]:
        """Return the parents of a page from the nearest on, as far as they are known."""
        run = _run_of(value)
        chain: list[str] = []
        above = value.get("parent_url") or value.get("parent")
        while isinstance(above, str) and above not in chain and len(chain) < _LONGEST_CHAIN:
            chain.append(above)
            above = self.parents.get((*run, above))
        return chain


def _run_of(value: Mapping[str, Any]) -> tuple[object, ...]:
    return tuple(str(value.get(name)) for name in ("spiderid", "appid", "crawlid", "run"))


@router.get("/frontier", summary="A URL")
async def frontier(
    service: TheService,
    client: TheClient,
    *,
    url: Url,
    appid: str | None = None,
    crawlid: str | None = None,
    spiderid: str | None = None,
) -> Response:
    """State of a URL in each crawl, its results, failures and parents, its next allowed request.

    ``results`` and ``failures`` are those among the latest 5 000 records of each topic, newest
    first; ``/v2/results?url=`` reads all records. ``domain`` is null for a key that is limited to
    applications.
    """
    wanted = wanted_by(client, url=url, appid=appid, crawlid=crawlid, spiderid=spiderid)
    return success(await story_of(service, client, wanted))


async def story_of(service: Service, client: Client, wanted: RecordFilter) -> views.View:
    """Return all records of the wanted URL; raise KafkaUnavailable or RedisUnavailable."""
    url = wanted.url or ""
    crawls = await _crawls(service, client, wanted)
    report = await service.frontier.inspector.url(
        url,
        crawls,
        with_never=None not in {wanted.appid, wanted.crawlid},
        with_domain=not client.appids,
    )
    async with service.pages.of(client.name):
        results = await _look(service, "results", wanted)
        failures = await _look(service, "events", wanted)
    return {
        **views.url(report),
        "results": [_result(one, results) for one in reversed(results.found)],
        "failures": [_failure(one, results) for one in reversed(failures.found)],
        "looked_at": {"results": results.looked_at, "events": failures.looked_at},
        "is_whole": results.is_whole and failures.is_whole,
    }


async def _crawls(service: Service, client: Client, wanted: RecordFilter) -> Sequence[CrawlKey]:
    """Return the crawls to search for the URL, the latest activity first."""
    if wanted.appid is not None and wanted.crawlid is not None:
        key = await named_crawl(service, wanted.appid, wanted.crawlid, wanted.spiderid)
        return [(await crawl_state(service, key)).crawl]
    await service.sampler.fresh()
    known = sorted(service.sampler.crawls, key=lambda one: one.last_activity, reverse=True)
    return [
        one.crawl
        for one in known
        if client.may_see(one.crawl.appid)
        and wanted.appid in {None, one.crawl.appid}
        and wanted.crawlid in {None, one.crawl.crawlid}
        and wanted.spiderid in {None, one.crawl.spiderid}
    ]


async def _look(service: Service, name: Name, wanted: RecordFilter) -> UrlRecords:
    """Search the latest records of a topic for those about a URL."""
    ends = await ends_of(service, name)
    share = -(-LOOKED_AT // len(ends))
    start = {number: max(0, end - share) for number, end in ends.items()}
    told, page = UrlRecords(is_whole=not any(start.values())), RecordPage(dict(start))
    every = replace(wanted, url=None)
    try:
        async with asyncio.timeout(_LOOKING_S), aclosing(read(service, name, start)) as records:
            async for record in records:
                if page.note(record, every):
                    told.note(name, page.records.pop(), wanted.url or "")
                if page.scanned % _BREATH == 0:
                    await asyncio.sleep(0)
    except TimeoutError:
        told.is_whole = False
    return told


def _result(record: Mapping[str, Any], known: UrlRecords) -> Mapping[str, Any]:
    value = record["value"]
    place = {name: record[name] for name in ("partition", "offset", "at_ms")}
    fields = {name: value.get(name) for name in _RESULT}
    return {**place, **fields, "chain": known.chain(value)}


def _failure(record: Mapping[str, Any], known: UrlRecords) -> Mapping[str, Any]:
    value = record["value"]
    place = {name: record[name] for name in ("partition", "offset", "at_ms")}
    return {**place, **value, "chain": known.chain(value)}
