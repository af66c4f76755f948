"""The search box of every screen, and the screen about a URL: its place, outcome and reason."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from fastapi import APIRouter, Response
from fastapi.responses import RedirectResponse

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.state import CrawlState
from crawlstream.model.throttle_table import site_of
from crawlstream.model.url import fold_host
from crawlstream.stats.domains import OTHERS, read_domains
from rest_service.dashboard.cluster import latest
from rest_service.dashboard.render import SHOWN, crawl_path, render
from rest_service.http.access import Client
from rest_service.http.envelope import RequestRefused
from rest_service.service import Service, TheClient, TheService
from rest_service.v2.frontier import story_of
from rest_service.v2.living import living_spiders, with_lanes
from rest_service.v2.reading import url_of, wanted_by

_LONGEST = 10_000

router = APIRouter(prefix="/ui", include_in_schema=False)


@router.get("/search")
async def search(service: TheService, client: TheClient, q: str = "") -> Response:
    """Redirect to the crawl, URL or domain that fits, or show similar ones."""
    text = q.strip()[:_LONGEST]
    await service.sampler.fresh()
    crawls = latest([one for one in service.sampler.crawls if client.may_see(one.crawl.appid)])
    named = [one for one in crawls if one.crawl.crawlid == text]
    problem = ""
    if len(named) == 1:
        return _lead(crawl_path(named[0]))
    if not named and "/" in text:
        try:
            return _lead(f"/ui/url?{urlencode({'url': url_of(text)})}")
        except RequestRefused as error:
            problem = str(error)
    domains = await _domains(service, client, text) if text and not named else []
    if text in domains:
        return _lead(f"/ui/domains?{urlencode({'name': text})}")
    spiders = await living_spiders(service)
    return render(
        "search.html",
        client=client,
        q=text,
        problem=problem,
        is_exact=bool(named),
        crawls=await with_lanes(service, (named or _alike(crawls, text))[:SHOWN], spiders),
        spiders=spiders,
        domains=domains[:SHOWN],
        is_blind=service.sampler.is_blind,
    )


def _lead(path: str) -> Response:
    return RedirectResponse(path, status_code=303)


def _alike(crawls: Sequence[CrawlState], text: str) -> Sequence[CrawlState]:
    """Return crawls with a text in their id or application; none for an empty text."""
    part = text.casefold()
    ids = [(one, f"{one.crawl.crawlid}\n{one.crawl.appid}".casefold()) for one in crawls]
    return [one for one, told in ids if part and part in told]


async def _domains(service: Service, client: Client, text: str) -> list[str]:
    """Return known domains with the text in their name; first the text itself if it is one."""
    if client.appids:
        return []
    name = fold_host(text)
    traffic = await service.sampler.shared(
        "traffic", lambda: read_domains(service.redis, service.keys, most=1000)
    )
    table = await service.frontier.rules.table()
    own = table.rules.keys() | table.blacklist if table else frozenset()
    known = (traffic.keys() | own) - {OTHERS}
    site = site_of(table, name)
    report = await service.frontier.inspector.domain(site)
    is_there = site in known or bool(report.queues or report.under_way or report.strikes)
    found = sorted(one for one in known if name in one)
    return [text, *found] if is_there and site == name and name == text else found


@router.get("/url")
async def url(
    service: TheService,
    client: TheClient,
    *,
    url: str = "",
    appid: str | None = None,
    crawlid: str | None = None,
    spiderid: str | None = None,
) -> Response:
    """Show a URL in every crawl, its parents, and the earliest time of its next request."""
    wanted = wanted_by(client, url=url, appid=appid, crawlid=crawlid, spiderid=spiderid)
    story = await story_of(service, client, wanted)
    return render("url.html", client=client, story=story, path_of=_path_of)


def _path_of(ids: dict[str, str]) -> str:
    """Return the screen of the crawl that a record or report belongs to."""
    key = CrawlKey(str(ids.get("spiderid")), str(ids.get("appid")), str(ids.get("crawlid")))
    named = {"appid": key.appid, "crawlid": key.crawlid, "spiderid": key.spiderid}
    return f"/ui/crawl?{urlencode(named)}"
