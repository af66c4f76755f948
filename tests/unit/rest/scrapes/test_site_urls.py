"""Lists of sites: their URLs, requests for them, and how long they are kept."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import ValidationError

from crawlstream_extract.extract import SITEMAP, ExtractRequest, extract
from rest_service.http.envelope import RequestRefused
from rest_service.topics.maps import MOST_MAPS, MOST_MAPS_EACH, SiteMaps
from rest_service.v2.scrapes import site_urls
from rest_service.v2.scrapes.map_order import MapOrder
from rest_service.v2.scrapes.site_urls import SiteUrls

SITE = "https://docs.example.com/"
APPS = frozenset({"apps"})


def listed(*urls: str, lastmod: str = "") -> list[tuple[str, str, str]]:
    """Return entries of a source."""
    return [(url, lastmod, "") for url in urls]


def test_urls_of_the_site_are_listed_once() -> None:
    """Lists URLs of the site once with all sources, and none of other domains."""
    found = SiteUrls(SITE)
    found.add("sitemap", [(f"{SITE}a", "2026-11-22", ""), ("https://example.org/", "", "")])
    found.add("links", [(f"{SITE}a", "", "A"), ("https://www.example.com/b", "", "")])
    assert found.best(10) == [
        {"url": f"{SITE}a", "lastmod": "2026-11-22", "title": "A", "from": ["sitemap", "links"]},
        {"url": "https://www.example.com/b", "from": ["links"]},
    ]


def test_the_latest_changes_come_first_then_the_shortest_urls() -> None:
    """Lists the latest changes first, then the shortest URLs, so that a limit is useful."""
    found = SiteUrls(SITE)
    found.add("sitemap", listed(f"{SITE}deep/er", f"{SITE}b", f"{SITE}a"))
    found.add("sitemap", listed(f"{SITE}old", lastmod="2025-01-01"))
    found.add("sitemap", listed(f"{SITE}new", lastmod="2026-01-01T10:00:00Z"))
    assert [one["url"].removeprefix(SITE) for one in found.best(4)] == ["new", "old", "a", "b"]
    assert len(found) == 5


def test_an_expression_chooses_urls() -> None:
    """It is contained in the URL."""
    found = SiteUrls(SITE, "/guide/[a-z]+$")
    found.add("links", listed(f"{SITE}guide/a", f"{SITE}guide/1", f"{SITE}guide/a/b"))
    assert [one["url"] for one in found.best(9)] == [f"{SITE}guide/a"]


def test_urls_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count those beyond the bound, but none twice that are kept."""
    monkeypatch.setattr(site_urls, "MOST_URLS", 2)
    found = SiteUrls(SITE)
    found.add("links", listed(f"{SITE}a", f"{SITE}b", f"{SITE}c", f"{SITE}a"))
    assert (len(found), found.too_many) == (2, 1)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"match": "("}, "invalid"),
        ({"match": "(a{1000}){1000}"}, "invalid"),
    ],
)
def test_an_order_that_nobody_can_execute_is_refused(fields: dict[str, Any], code: str) -> None:
    """An expression that RE2 does not take, or that is too large for it."""
    with pytest.raises(RequestRefused) as refused:
        MapOrder(url=SITE, **fields).check()
    assert (refused.value.status, refused.value.details["code"]) == (422, code)


@pytest.mark.parametrize(
    "fields", [{"limit": 50_001}, {"sources": []}, {"sources": ["memory"]}, {"wait": 61}, {"a": 1}]
)
def test_an_order_has_bounds(fields: dict[str, Any]) -> None:
    """Refuses values beyond the bounds, and other fields."""
    with pytest.raises(ValidationError):
        MapOrder.model_validate({"url": SITE, **fields})


async def test_lists_that_are_being_made_are_bounded() -> None:
    """Limits lists in progress per client and in total; finished ones do not count."""
    maps = SiteMaps()
    made, failed = asyncio.Event(), RequestRefused(409, "No.")

    async def make() -> bytes:
        await made.wait()
        return b"{}"

    async def fail() -> bytes:
        raise failed

    own = [maps.begin("a", APPS, make()) for _ in range(MOST_MAPS_EACH)]
    with pytest.raises(RequestRefused):
        maps.check_room("a")
    maps.check_room("b")
    others = [maps.begin(f"{n}", APPS, make()) for n in range(MOST_MAPS - MOST_MAPS_EACH)]
    with pytest.raises(RequestRefused):
        maps.check_room("b")
    assert await own[0].wait(0) is None
    made.set()
    assert [await one.wait(5) for one in [*own, *others]] == [b"{}"] * MOST_MAPS
    maps.check_room("a")
    bad = maps.begin("a", APPS, fail())
    with pytest.raises(RequestRefused):
        await bad.wait(5)
    assert maps.get(own[0].id) is own[0]
    assert maps.get("map-none") is None


async def test_old_lists_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drop the oldest beyond the bytes; a list in progress stays until it is closed."""
    monkeypatch.setattr("rest_service.topics.maps._KEPT_BYTES", 25)
    maps = SiteMaps()

    async def make() -> bytes:
        return b"0123456789"

    first, second, third = [maps.begin("a", APPS, make()) for _ in range(3)]
    await asyncio.gather(*(one.wait(5) for one in (first, second, third)))
    assert maps.get(first.id) is None
    assert maps.get(second.id) is second
    endless = maps.begin("a", APPS, asyncio.Event().wait())  # type: ignore[arg-type]
    await maps.close()
    assert endless.making.cancelled()
    assert maps.get(third.id) is third


def test_sitemaps_are_a_format_of_workers() -> None:
    """Reads sitemaps in workers, so that a hostile one costs their limits at most."""
    body = b"<urlset><url><loc>/a</loc><lastmod>2026-11-22</lastmod></url></urlset>"
    request = ExtractRequest(
        body=body, encoding=None, mime="", url=f"{SITE}sitemap.xml", formats=[SITEMAP]
    )
    assert extract(request).formats[SITEMAP] == {
        "pages": [[f"{SITE}a", "2026-11-22"]],
        "sitemaps": [],
        "refused": {},
    }
