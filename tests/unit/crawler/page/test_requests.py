"""Requests: from a lease to Scrapy, and from a spider's output back to entries."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.spiders import CrawlSpider
from structlog.testing import capture_logs

from crawling.links.children import Children
from crawling.links.requests import callback_of
from crawling.page.scrapy_request import PAGE, agent_of, page_of, to_scrapy
from crawlstream.model.crawl import Entry, Profile
from crawlstream.model.credentials import scope_of
from crawlstream.model.effects import Links
from crawlstream.model.url import fingerprint
from crawlstream.wire.stored import decode_entry
from support.pages import answer, page_at


class SomeSpider(Spider):
    """A spider with a second callback."""

    name = "some"

    def parse_item(self, response: Any) -> None:
        """Nothing to do."""


def failed(_failure: Any) -> None:
    """An errback."""


def entries(children: Children) -> list[Entry]:
    """Every entry of every group."""
    return [decode_entry(entry) for group in children.groups for entry in group.entries]


def test_a_hold_becomes_a_request_that_nothing_filters() -> None:
    """Method, body, priority and meta travel; the page goes along."""
    page = page_at(
        method="POST", body="q=ü".encode(), meta={"n": 1}, callback="parse_item", depth=2
    )
    spider = SomeSpider()
    request = to_scrapy(page, spider, failed)
    assert request.body == "q=ü".encode()
    assert (request.method, request.priority, request.dont_filter) == ("POST", 5, True)
    assert request.callback == spider.parse_item
    assert request.meta["n"] == 1
    assert (request.meta["appid"], request.meta["curdepth"]) == ("app", 2)
    assert page_of(request) is page


def test_a_request_is_for_the_address_of_its_page() -> None:
    """Scrapy would quote it once more. What a middleware asks for is made an address."""
    url = "http://a.example/a|b[c]?d|e^{f}`&g=%GG"
    request = to_scrapy(page_at(url), SomeSpider(), lambda _: None)
    assert request.url == url
    assert request.replace(url="http://A.example/x\r\ny: z").url == "http://a.example/xy:%20z"
    assert request.replace(url="http://u@a.example/ x").url == "http://u@a.example/%20x"


def test_a_callback_that_does_not_exist_is_an_error_of_the_request() -> None:
    """The page fails with a reason instead of being parsed by the wrong code."""
    with pytest.raises(TypeError, match="no callback 'gone'"):
        to_scrapy(page_at(callback="gone"), SomeSpider(), failed)


def test_headers_of_http_itself_and_forgeries_are_left_out() -> None:
    """A header is one line, and what frames the message is not the requester's."""
    headers = {
        "Host": "evil",
        "Content-Length": "9",
        "Transfer-Encoding": "chunked",
        "Bad Name": "x",
        "X-Split": "a\r\nEvil: 1\x00",
        "X-Empty": "",
    }
    request = to_scrapy(page_at(headers=headers), SomeSpider(), failed)
    assert request.headers.to_unicode_dict() == {"X-Split": "aEvil: 1"}


def test_nothing_is_said_twice_however_it_is_spelled() -> None:
    """The crawl's user agent and cookies stand above its headers, a request's own above all."""
    profile = Profile(
        useragent="crawl/1",
        cookie="k=v",
        headers={"user-agent": "header/1", "cookie": "x=y", "ACCEPT": "a", "referer": "r"},
    )
    page = page_at(profile=profile, headers={"Accept": "b"}, parent_url="http://a.example/")
    request = to_scrapy(page, SomeSpider(), failed)
    assert request.headers.to_unicode_dict() == {
        "User-Agent": "crawl/1",
        "Cookie": "k=v",
        "Accept": "b",
        "Referer": "http://a.example/",
    }


def test_the_agent_of_a_page_is_the_one_that_its_request_names() -> None:
    """Its own, else the crawl's, else a header of the crawl, else the worker's."""
    headers = {"user-agent": "header/1"}
    of_crawl = Profile(headers=headers, useragent="crawl/1")
    assert agent_of(page_at().lease, "worker/1") == "worker/1"
    assert agent_of(page_at(profile=Profile(headers=headers)).lease, "worker/1") == "header/1"
    assert agent_of(page_at(profile=of_crawl).lease, "worker/1") == "crawl/1"
    assert agent_of(page_at(headers={"User-Agent": "own/1"}).lease, "worker/1") == "own/1"


@pytest.mark.parametrize(
    ("url", "cookie"),
    [
        ("https://www.alice.github.io/x", b"k=v; c=2; r=3"),
        ("http://www.alice.github.io/x", b"r=3"),
        ("https://attacker.github.io/x", b"r=3"),
        ("https://b.example/x", b"r=3"),
    ],
)
def test_cookies_and_headers_are_bound_to_the_seeds_own_domain(url: str, cookie: bytes) -> None:
    """Elsewhere, and unencrypted, only what the redirect's own host has set."""
    profile = Profile(
        site=scope_of("https://alice.github.io/"),
        cookie="k=v;",
        cookies={"c": "2"},
        headers={"Authorization": "Bearer 1"},
    )
    request = to_scrapy(page_at(url, profile=profile, cookies={"r": "3"}), SomeSpider(), failed)
    assert request.headers[b"Cookie"] == cookie
    assert (b"Authorization" in request.headers) is cookie.startswith(b"k")


def test_links_are_grouped_by_domain_and_come_in_once() -> None:
    """A group per domain; the same page twice, in any spelling, is one entry."""
    page = page_at(depth=1)
    children = Children(page)
    urls = ["http://a.example/x?b=1&a=2", "http://a.example/x?a=2&b=1", "https://b.example/#f"]
    children.follow([*urls, "ftp://c.example/", "http://user@d.example/"], answer(page))
    assert [(g.domain, g.priority, g.counts) for g in children.groups] == [
        ("a.example", -5, True),
        ("b.example", -5, True),
    ]
    assert [entry.url for entry in entries(children)] == [
        "http://a.example/x?b=1&a=2",
        "https://b.example/",
    ]
    assert {entry.depth for entry in entries(children)} == {2}
    assert {entry.parent_url for entry in entries(children)} == {page.lease.entry.url}
    assert page.filtered == {"duplicate": 1, "scheme": 1, "url": 1}


def test_a_users_request_travels_with_everything_that_can() -> None:
    """Callback's name, headers, cookies, own meta; not the data of its parent's download."""
    page = page_at()
    spider = SomeSpider()
    children = Children(page, spider=spider)
    copied = {
        "proxy": "http://10.0.0.1:3128",
        "bindaddress": "10.0.0.2",
        "download_latency": 1,
        "depth": 4,
        "retry_times": 2,
        PAGE: page,
        "appid": "x",
    }
    request = Request(
        "http://a.example/y#f",
        spider.parse_item,
        method="PUT",
        headers={"X-A": "1"},
        body=b"b",
        cookies={"c": "1"},
        meta={"mine": [1], **copied},
        priority=3,
    )
    children.request(request, answer(page))
    (group,) = children.groups
    assert group == Links(
        domain="a.example",
        priority=-2,
        fingerprints=[fingerprint("http://a.example/y", "PUT", b"b")],
        entries=group.entries,
    )
    (entry,) = entries(children)
    assert entry == Entry(
        url="http://a.example/y",
        depth=1,
        parent_url=page.lease.entry.url,
        callback="parse_item",
        method="PUT",
        headers={"X-A": "1"},
        body=b"b",
        cookies={"c": "1"},
        meta={"mine": [1]},
    )


def test_a_stored_request_cannot_choose_its_way() -> None:
    """Proxy and local address are a middleware's choice, for one download."""
    way = {"proxy": "http://10.0.0.1:3128", "_auth_proxy": "x", "bindaddress": "10.0.0.2"}
    meta = to_scrapy(page_at(meta={**way, "mine": 1}), SomeSpider(), failed).meta
    assert meta["mine"] == 1
    assert not way.keys() & meta.keys()


def test_undeduplicated_requests_are_the_same_again_when_their_page_is() -> None:
    """Each is its own, and a repetition of the page yields the same ones."""

    def ask() -> list[str]:
        page = page_at()
        children = Children(page)
        for _ in range(2):
            children.request(Request("http://a.example/z", dont_filter=True), answer(page))
        return [number for group in children.groups for number in group.fingerprints]

    first, again = ask(), ask()
    assert len(set(first)) == 2
    assert first == again


@pytest.mark.parametrize(("asked", "kept"), [(10**30, 8_000), (-(10**30), -8_000), (3, -2)])
def test_a_priority_stays_where_the_frontier_can_rank_it(asked: int, kept: int) -> None:
    """Further out means no more than last, or first."""
    page = page_at()
    children = Children(page)
    children.request(Request("http://a.example/", priority=asked), answer(page))
    assert [group.priority for group in children.groups] == [kept]


def test_the_referrer_policy_of_a_page_goes_with_its_links() -> None:
    """Stores the referrer policy of a page only if it changes what is sent."""
    page = page_at()
    children = Children(page)
    children.follow(["http://a.example/x"], answer(page, Referrer_Policy="origin"))
    assert entries(children)[0].headers == {"Referer": "http://a.example/"}


def test_an_errback_that_is_left_out_is_logged_once() -> None:
    """The log has its name; the errback that a CrawlSpider sets for any rule is not a user's."""

    def left_out(_failure: object) -> None:
        """Do nothing."""

    spider = SomeSpider()
    with capture_logs() as logs:
        for errback in (left_out, left_out, CrawlSpider(name="ruled")._errback):
            callback_of(Request("http://a.example/", errback=errback), spider)
    (told,) = logs
    assert (told["log_level"], told["outcome"], told["errback"]) == (
        *("warning", "errback_ignored", "left_out"),
    )
