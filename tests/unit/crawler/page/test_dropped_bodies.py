"""Bodies of pages that ask not to be kept: no result has them."""

from __future__ import annotations

import hashlib

import pytest
from scrapy import Request
from scrapy.http import HtmlResponse

from crawling.page.page import Page, Screenshot
from crawling.page.scrapy_request import PAGE
from crawling.spiders.base import ClusterSpider
from crawling.spiders.link import LinkSpider
from crawling.spiders.sitemap import SitemapSpider
from crawling.testing import crawl_page
from crawlstream.model.web.directives import ban_of
from support.crawler.leases import lease

URL = "http://a.example/"
BODY = "<title>x</title><a href=/a>a</a>"
AT = 1_700_000_000.0


@pytest.mark.parametrize(
    ("directives", "obeyed", "ban"),
    [
        ([], ["noindex", "noarchive"], None),
        (["noindex"], [], None),
        (["noindex", "noarchive"], ["noarchive"], "noarchive"),
        (["noarchive", "noindex"], ["noarchive", "noindex"], "noindex"),
        (["nofollow", "nosnippet"], ["noindex", "noarchive"], None),
        (["unavailable_after=1700000000"], ["noindex"], "noindex"),
        (["unavailable_after=1700000001"], ["noindex"], None),
        (["unavailable_after=-5"], ["noarchive"], None),
        (["unavailable_after=-5", "x"], ["noindex"], "noindex"),
        (["unavailable_after=soon", "unavailable_after=--5x"], ["noindex"], None),
    ],
)
def test_a_page_names_the_ban_that_is_obeyed(
    directives: list[str], obeyed: list[str], ban: str | None
) -> None:
    """A page is like one with ``noindex`` from its date on."""
    assert ban_of(directives, obeyed, AT) == ban


@pytest.mark.parametrize(
    ("rights", "obeyed", "ban"),
    [
        ({"reserved": True}, ["reserved"], "reserved"),
        ({"reserved": True}, ["noindex", "reserved"], "noindex"),
        ({"reserved": True}, ["noarchive"], None),
        ({"reserved": False}, ["reserved"], None),
        ({"purpose": None}, ["reserved"], None),
        (None, ["reserved"], None),
    ],
)
def test_a_reservation_is_a_ban(
    rights: dict[str, object] | None, obeyed: list[str], ban: str | None
) -> None:
    """Drops a body by the rights of the page, not by a directive of that name; directives first."""
    assert ban_of(["noindex", "reserved"], obeyed, AT, rights) == ban


@pytest.mark.parametrize("spider", [LinkSpider, SitemapSpider])
def test_a_result_of_a_reserved_page_has_no_body(spider: type) -> None:
    """If the crawl wants that, and its purpose is the one; the result always has the rights."""
    headers = {"Content-Type": "text/html", "Content-Usage": "train-ai=n"}
    for purpose, body in (("train-ai", ""), ("search", BODY)):
        asked = {"maxdepth": 1, "drop": ["reserved"], "purpose": purpose}
        (result,) = crawl_page(spider, URL, BODY, headers=headers, request=asked).results
        assert (result["body"], result["rights"]["reserved"]) == (body, not body)
        assert result.get("dropped") == (None if body else "reserved")
    (result,) = crawl_page(spider, URL, BODY, headers=headers).results
    assert result["rights"]["purpose"] is None
    assert "rights" not in crawl_page(spider, URL, BODY).results[0]


@pytest.mark.parametrize("ban", [None, "noarchive"])
def test_a_page_that_is_not_kept_has_no_screenshot(ban: str | None) -> None:
    """A picture of the page is left out with its body, and the result says so."""
    page = Page(lease(), "id", dropped=ban, screenshot=Screenshot({"width": 1}, b"png"))
    response = HtmlResponse(URL, body=BODY, encoding="utf-8", request=Request(URL))
    response.meta[PAGE] = page
    result = ClusterSpider(name="link").result(response)
    if ban:
        assert (result.screenshot, result.screenshot_body) == ({"error": "dropped"}, None)
    else:
        assert (result.screenshot, result.screenshot_body) == ({"width": 1}, b"png")


@pytest.mark.parametrize("spider", [LinkSpider, SitemapSpider])
def test_a_result_has_size_and_digest_of_a_body_that_is_not_kept(spider: type) -> None:
    """Its links stay; the same page without the directive, or the wish, has its body."""
    asked = {"maxdepth": 1, "drop": ["noindex"]}
    headers = {"Content-Type": "text/html", "X-Robots-Tag": "noindex"}
    (dropped,) = crawl_page(spider, URL, BODY, headers=headers, request=asked).results
    (kept,) = crawl_page(spider, URL, BODY, headers=headers, request={"maxdepth": 1}).results
    assert (dropped["body"], dropped.get("dropped")) == ("", "noindex")
    assert (kept["body"], "dropped" in kept) == (BODY, False)
    assert dropped["body_size"] == len(BODY)
    assert dropped["digest"] == f"sha256:{hashlib.sha256(BODY.encode()).hexdigest()}"
    assert dropped["links"] == kept["links"]
    (plain,) = crawl_page(spider, URL, BODY, request=asked).results
    assert plain["body"] == BODY
