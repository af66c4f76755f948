"""Redirects: where a response sends to, and where a chain ends."""

from __future__ import annotations

import pytest
from scrapy.http import HtmlResponse

from crawling.response.redirects import MAX_REDIRECTS, redirect_of
from crawlstream.model.crawl import Entry
from support.pages import answer, page_at

HERE = "http://a.example/page"


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/next?b=2&a=1", "http://a.example/next?b=2&a=1"),
        ("next", "http://a.example/next"),
        ("//b.example/x", "http://b.example/x"),
        ("HTTPS://B.example:443/x", "https://b.example/x"),
        ("/sp ace", "http://a.example/sp%20ace"),
        ("/é", "http://a.example/%C3%A9"),
        (b"/\xe9?\xe9", "http://a.example/%E9?%E9"),
        (r"\next", "http://a.example/next"),
        ("http:/next//x", "http://a.example/next//x"),
        ("http://faß.example/", "http://xn--fa-hia.example/"),
        ("?wsdl", "http://a.example/page?wsdl"),
    ],
)
def test_the_target_is_fetched_as_it_is_named(location: str | bytes, target: str) -> None:
    """Goes where browsers go: hosts in one spelling, arguments as the site has them."""
    found = redirect_of(page_at(HERE, depth=2), answer(page_at(HERE), 302, Location=location))
    assert isinstance(found, Entry)
    assert (found.url, found.depth, found.redirect_urls) == (target, 2, (HERE,))


@pytest.mark.parametrize(
    ("status", "location"),
    [
        (200, "/x"),
        (304, "/x"),
        (302, ""),
        (302, "file:///etc/passwd"),
        (302, "javascript:x"),
        (302, "javascript:1"),
        (302, "tel:5551"),
        (302, "http://user@b.example/"),
        (302, "http://[::1"),
        (302, "http://b.example:port/"),
        (301, "http://a.example/" + "x" * 3000),
    ],
)
def test_what_cannot_be_followed_is_the_pages_result(status: int, location: str) -> None:
    """Delivers a redirect that cannot be followed as the page's result."""
    page = page_at(HERE)
    assert redirect_of(page, answer(page, status, Location=location)) is None


@pytest.mark.parametrize("target", ["/x", "http://b.example/x", HERE])
def test_what_is_known_of_a_page_is_not_known_of_where_it_sends(target: str) -> None:
    """Conditions are dropped at home, elsewhere, and where a page sends to itself."""
    headers = {"If-None-Match": '"a"', "if-modified-since": "then", "Accept": "text/html"}
    page = page_at(HERE, headers=headers)
    found = redirect_of(page, answer(page, 302, Location=target, Set_Cookie="a=b"))
    assert isinstance(found, Entry)
    assert found.headers == {"Accept": "text/html"}


@pytest.mark.parametrize(
    ("status", "method", "becomes"),
    [
        (301, "POST", "GET"),
        (302, "POST", "GET"),
        (303, "POST", "GET"),
        (303, "PUT", "GET"),
        (303, "HEAD", "HEAD"),
        (302, "PUT", "PUT"),
        (307, "POST", "POST"),
        (308, "POST", "POST"),
    ],
)
def test_the_method_changes_as_in_browsers(status: int, method: str, becomes: str) -> None:
    """A body is sent again only where the status says so."""
    headers = {"Content-Type": "text/plain", "X-Kept": "1"}
    page = page_at(HERE, method=method, body=b"q=1", headers=headers)
    found = redirect_of(page, answer(page, status, Location="/x"))
    assert isinstance(found, Entry)
    assert found.method == becomes
    assert found.body == (b"q=1" if becomes == method else None)
    assert found.headers == (headers if becomes == method else {"X-Kept": "1"})


def test_a_loop_ends_and_a_long_chain_too() -> None:
    """Back into the chain without a new cookie is a loop; ten hops are enough."""
    page = page_at(HERE, redirect_urls=("http://a.example/1",))
    assert redirect_of(page, answer(page, 302, Location="/1")) == "redirect_loop"
    assert redirect_of(page, answer(page, 302, Location=HERE)) == "redirect_loop"
    far = page_at(HERE, redirect_urls=tuple(f"http://a.example/{n}" for n in range(MAX_REDIRECTS)))
    assert redirect_of(far, answer(far, 302, Location="/new")) == "too_many_redirects"


def test_the_same_page_is_asked_again_with_the_cookie_it_set() -> None:
    """A page behind a cookie does not loop; it is set apart, since the crawl has seen it."""
    page = page_at(HERE, cookies={"old": "1"})
    cookies = ["seen=2; Path=/; HttpOnly", "old=; Max-Age=0", "junk"]
    found = redirect_of(page, answer(page, 302, Location=HERE, Set_Cookie=cookies))
    assert isinstance(found, Entry)
    assert found.cookies == {"seen": "2"}
    assert found.salt is not None


@pytest.mark.parametrize(
    ("attributes", "stays"),
    [
        ("Expires=Thu, 01 Jan 1970 00:00:00 GMT", False),
        ("Path=/; expires=Thu, 01-Jan-1970 00:00:01 GMT", False),
        ("Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT", True),
        ("Expires=Fri, 01 Jan 2100 00:00:00 GMT", True),
        ("Expires=soon", True),
        ("Max-Age=-1", False),
        ("Max-Age=--1", True),
        ("Max-Age=\N{SUPERSCRIPT TWO}", True),
        ("Max-Age=" + "9" * 5000, True),
    ],
)
def test_a_cookie_is_deleted_as_sites_do_it(attributes: str, *, stays: bool) -> None:
    """Deletes a cookie by a past age or date; nonsense deletes nothing, and fails no page."""
    page = page_at(HERE, cookies={"old": "1"})
    cookies = [f"old=2; {attributes}".encode()]
    found = redirect_of(page, answer(page, 302, Location="/x", Set_Cookie=cookies))
    assert isinstance(found, Entry)
    assert found.cookies == ({"old": "2"} if stays else {})


def test_another_spelling_of_the_same_page_is_followed() -> None:
    """A site that insists on its order of arguments is obeyed, not deduplicated away."""
    page = page_at("http://a.example/q?a=1&b=2")
    found = redirect_of(page, answer(page, 301, Location="/q?b=2&a=1"))
    assert isinstance(found, Entry)
    assert found.salt is not None


def test_where_a_seed_leads_is_set_apart_for_the_whole_chain() -> None:
    """Keeps the seed's origin, and salts each hop by the page before, the same in each attempt."""
    page = page_at(HERE, origin="in-0-7")
    first = redirect_of(page, answer(page, 301, Location="/x"))
    again = redirect_of(page_at(HERE, origin="in-0-7"), answer(page, 301, Location="/x"))
    other = redirect_of(page_at(HERE, origin="in-0-8"), answer(page, 301, Location="/x"))
    assert isinstance(first, Entry)
    assert isinstance(other, Entry)
    assert first == again
    assert (first.origin, other.origin) == ("in-0-7", "in-0-8")
    assert first.salt
    assert first.salt != other.salt
    link = redirect_of(page_at(HERE), answer(page, 301, Location="/x"))
    assert isinstance(link, Entry)
    assert (link.origin, link.salt) == (None, None)


def refreshing(content: str) -> HtmlResponse:
    """A page that names its successor in its head."""
    body = f'<head><META http-equiv="Refresh" content="{content}"></head>'
    return HtmlResponse(HERE, body=body.encode(), encoding="utf-8")


def test_a_page_that_refreshes_to_another_is_a_redirect() -> None:
    """Follows a refresh as a GET redirect, after the delay that Scrapy accepts."""
    page = page_at(HERE, method="POST", body=b"q=1")
    found = redirect_of(page, refreshing("5; url='/next'"), 10)
    assert isinstance(found, Entry)
    assert (found.url, found.method, found.body) == ("http://a.example/next", "GET", None)
    assert redirect_of(page, refreshing("10; url=/next"), 10) is None
    assert redirect_of(page, refreshing("0; url=/next"), 0) is None


@pytest.mark.parametrize(
    "content",
    [
        "0; url = /next",
        "0; /next",
        "0,url=/next",
        "0 url=/next",
        " .5;URL='/next' x",
        "0;/\t/a.example\\next",
    ],
)
def test_a_refresh_is_read_as_browsers_read_it(content: str) -> None:
    """Takes each way to write it that the HTML Standard has."""
    found = redirect_of(page_at(HERE), refreshing(content), 10)
    assert isinstance(found, Entry)
    assert found.url == "http://a.example/next"


@pytest.mark.parametrize("charset", ["utf-8", "utf-16"])
def test_a_refresh_is_found_wherever_it_stands(charset: str) -> None:
    """Finds no refresh in comments, scripts, templates and `noscript`."""
    refresh = '<Meta content="0;url={}" HTTP-EQUIV = Refresh>'
    others = "".join(
        f"{start}{refresh.format('/no')}{end}"
        for start, end in (
            ("<!--", "-->"),
            *((f"<{name}>", f"</{name}>") for name in ("noscript", "template", "script", "title")),
        )
    )
    far = f"<style>{'x' * 100_000}</style></head></html>{'<div>' * 3_000}"
    body = f"<head>{others}{far}{refresh.format('next')}<base href='/base/'>".encode(charset)
    found = redirect_of(page_at(HERE), HtmlResponse(HERE, body=body, encoding=charset), 10)
    assert isinstance(found, Entry)
    assert found.url == "http://a.example/base/next"


@pytest.mark.parametrize(
    "content",
    [
        "5",
        "5; url=/page",
        "0; url=/first",
        "0; url=file:///x",
        "x",
        "0; url=tel:5551",
        "0x;/y",
        ";/x",
    ],
)
def test_a_page_that_refreshes_itself_is_a_page(content: str) -> None:
    """A ticker, a slide show that begins again and nonsense are delivered."""
    page = page_at(HERE, redirect_urls=("http://a.example/first",))
    assert redirect_of(page, refreshing(content), 100) is None


def test_a_refresh_to_no_url_is_a_page() -> None:
    """It costs nothing but the redirect."""
    assert redirect_of(page_at(HERE), refreshing("0; url=http://["), 100) is None


def test_a_refresh_without_end_ends_with_a_page() -> None:
    """The last of too many hops is delivered."""
    far = page_at(HERE, redirect_urls=tuple(f"http://a.example/{n}" for n in range(MAX_REDIRECTS)))
    assert redirect_of(far, refreshing("0; url=/new"), 100) is None


def test_abroad_nobody_learns_who_asks() -> None:
    """Cookies, also those set just now, and credentials stay with their host."""
    page = page_at(
        HERE, cookies={"a": "1"}, headers={"Authorization": "x", "Cookie": "y", "X-Kept": "1"}
    )
    found = redirect_of(page, answer(page, 302, Location="http://b.example/", Set_Cookie=["c=3"]))
    assert isinstance(found, Entry)
    assert found.cookies == {}
    assert found.headers == {"X-Kept": "1"}


def test_a_chain_that_leaves_encryption_leaves_its_cookies() -> None:
    """Cookies set over https are not sent over http, credentials are not either."""
    headers = {"authorization": "x", "X-Kept": "1"}
    page = page_at("https://a.example/", cookies={"a": "1"}, headers=headers)
    found = redirect_of(page, answer(page, 302, Location="http://a.example/"))
    assert isinstance(found, Entry)
    assert (found.cookies, found.headers) == ({}, {"X-Kept": "1"})


def test_a_site_cannot_make_its_redirects_large() -> None:
    """Cookies that no browser would keep are none, and all together fit into a header."""
    headers = ["a=1", "big=" + "x" * 5000, *(f"c{number}={'y' * 1000}" for number in range(500))]
    found = redirect_of(
        page_at(HERE), answer(page_at(HERE), 302, Location="/x", Set_Cookie=headers)
    )
    assert isinstance(found, Entry)
    assert list(found.cookies) == ["a", *(f"c{number}" for number in range(8))]
    small = [f"c{number}=1" for number in range(500)]
    found = redirect_of(page_at(HERE), answer(page_at(HERE), 302, Location="/x", Set_Cookie=small))
    assert isinstance(found, Entry)
    assert len(found.cookies) == 50


@pytest.mark.parametrize(
    ("said", "target", "told"),
    [
        ("http://a.example/secret", "http://a.example/x", "http://a.example/secret"),
        ("http://a.example/secret", "http://b.example/x", "http://a.example/"),
        ("https://a.example/secret", "http://a.example/x", ""),
        ("", "http://b.example/x", ""),
    ],
)
def test_a_redirect_tells_no_more_of_the_page_before(said: str, target: str, told: str) -> None:
    """A Referer that was stored with a request is cut for another origin."""
    page = page_at(HERE, headers={"Referer": said})
    found = redirect_of(page, answer(page, 302, Location=target))
    assert isinstance(found, Entry)
    assert found.headers == {"Referer": told}
