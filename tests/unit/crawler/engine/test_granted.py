"""Requests that a page's grant pays for, from any sender."""

from __future__ import annotations

import time
from typing import Any

import pytest
from scrapy import Request

from crawling.engine.downloader import granted
from crawling.failures import RequestReplaced, reason_of
from crawling.lease.expired import GrantExpired
from crawling.lease.leases import Leases
from crawling.lease.sites import OtherSite
from crawling.page.page import Page
from crawling.page.scrapy_request import PAGE
from crawlstream.model.crawl import Entry
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from support.crawler.leases import lease

RULE = ThrottleRule(hits=10, window_s=60)
TABLE = ThrottleTable(
    default=RULE,
    rules={"shop.a.com": RULE, "a.b.co.uk": RULE},
    blacklist=frozenset({"bad.a.com", "b.de"}),
)


def granting(url: str, site: str) -> tuple[Leases, Page]:
    """Leases by ``TABLE``, and a page that was granted for a site just now."""
    leases, now = Leases(64, lambda: None), time.monotonic()
    leases.sites.site_of = lambda _partition, url: TABLE.site_of(url)
    leases.note_answer(0, now, 1)
    return leases, leases.admit(lease(1, entry=Entry(url=url), issued_at=now, domain=site))


WWW = ("http://www.a.com/", "a.com")
SHOP = ("https://x.shop.a.com/1", "shop.a.com")


@pytest.mark.parametrize(
    ("page", "url", "is_paid"),
    [
        (WWW, "http://www.a.com/", True),
        (WWW, "http://a.com/robots.txt", True),
        (WWW, "https://new.a.com:8443/", True),
        (WWW, "http://WWW.A.com./", True),
        (WWW, "http://shop.a.com/", False),
        (WWW, "http://SHOP.a.com./", False),
        (WWW, "http://x.shop.a.com/", False),
        (WWW, "http://bad.a.com/", False),
        (WWW, "http://b.de/", False),
        (WWW, "http://a.com.au/", False),
        (WWW, "http://u@a.com/", False),
        (WWW, "http://2130706433/", False),
        (SHOP, "http://shop.a.com/", True),
        (SHOP, "http://a.com/", False),
        (("http://c.b.co.uk/", "b.co.uk"), "http://a.b.co.uk/", False),
        (("http://1.2.3.4/", "1.2.3.4"), "http://1.2.3.5/", False),
    ],
)
def test_a_grant_pays_for_requests_to_its_site_alone(
    page: tuple[str, str],
    url: str,
    is_paid: bool,  # noqa: FBT001
) -> None:
    """Middlewares get another one only for the site; at the gate nothing else passes at all."""
    leases, held = granting(*page)
    asked, wanted = Request(page[0], meta={PAGE: held}), Request(url)
    if is_paid:
        came: Any = granted(wanted, asked, leases)
        assert came.meta[PAGE] is held
        leases.set_out(held, url)
        return
    with pytest.raises(RequestReplaced):
        granted(wanted, asked, leases)
    with pytest.raises(OtherSite) as raised:
        leases.set_out(held, url)
    assert reason_of(raised.value) == "invalid_request"


def test_a_page_whose_site_has_changed_since_its_grant_is_given_back() -> None:
    """Its next grant is by the rules in force."""
    leases, page = granting("http://shop.a.com/", "a.com")
    with pytest.raises(GrantExpired):
        leases.set_out(page, page.lease.entry.url)
