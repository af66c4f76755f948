"""The scope of a crawl, which links and redirects obey alike."""

from __future__ import annotations

from typing import Any, cast

import pytest
from scrapy import Request
from scrapy.http import HtmlResponse

from crawling.links.blacklist import Blacklist
from crawling.links.children import Children
from crawling.links.extract import links_of
from crawling.links.scope import RedirectRules
from crawling.page.page import Page
from crawling.page.scrapy_request import PAGE
from crawling.response.redirects import leads_on, redirect_of
from crawlstream.model.crawl import Entry, Profile
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from crawlstream.model.web.priorities import PriorityRule
from crawlstream.wire.stored import decode_entry
from crawlstream_frontier.throttle_rules import ThrottleRules
from support.pages import answer, page_at

HERE, ORIGIN = "http://www.a.example/docs/page", "in-0-7"
FILTERS: dict[str, dict[str, Any]] = {
    "host": {"allowed_domains": ("www.a.example",)},
    "prefix": {"allow_regex": (r"^https?://www\.a\.example/docs/",)},
    "denied": {"deny_regex": ("/login",)},
    "backtracking": {"deny_regex": (r"/(?=login)",)},
    "extensions": {},
    "rules": {
        "priorities": (
            PriorityRule(match="/login/help", add=10),
            PriorityRule(match="/login", depth=(0, 9), drop=True),
            PriorityRule(hosts=("b.example",), types=("pdf",), drop=True),
        ),
        "deny_extensions": (),
    },
    "none": {"deny_extensions": ()},
}
"""Fields of a crawl, by their names, that judge its links."""


def redirected(page: Page, target: str, *, rules: RedirectRules | None = None) -> Entry | None:
    """The entry of a redirect's target; None where the response is the result."""
    found = redirect_of(page, answer(page, 302, Location=target), 0, rules or RedirectRules())
    assert not isinstance(found, str)
    return found


def page_of(filters: str, *, url: str = HERE, redirects: str = "seeds", **entry: Any) -> Page:
    """A page of a crawl with some filters."""
    return page_at(
        url, profile=Profile(maxdepth=3, redirects=redirects, **FILTERS[filters]), **entry
    )


@pytest.mark.parametrize(
    ("filters", "target", "reason"),
    [
        ("host", "/x", None),
        ("host", "https://www.a.example/x", None),
        ("host", "http://below.www.a.example/x", None),
        ("host", "http://a.example/", "domain"),
        ("host", "http://b.example/", "domain"),
        ("prefix", "https://www.a.example/docs/x", None),
        ("prefix", "/login", "regex"),
        ("prefix", "http://b.example/docs/", "regex"),
        ("denied", "http://b.example/", None),
        ("denied", "/login?back=/docs/", "regex"),
        ("backtracking", "/login", "regex"),
        ("extensions", "/paper.pdf", "extension"),
        ("extensions", "/paper.PDF;v=1?x=1", "extension"),
        ("extensions", "/paper?file=.pdf", None),
        ("none", "http://b.example/paper.pdf", None),
        ("rules", "/login#top", "rule"),
        ("rules", "/login/help", None),
        ("rules", "http://www.b.example/paper.PDF", "rule"),
        ("rules", "http://b.example/", None),
    ],
)
@pytest.mark.parametrize("way", ["redirect", "refresh", "script", "link"])
def test_a_redirect_is_filtered_as_a_link_is(
    filters: str, target: str, reason: str | None, way: str
) -> None:
    """Judges Location, refresh, scripts and links by one rule, and counts each by its reason."""
    page = page_of(filters)
    if way == "link":
        body = f"<a href='{target}'>x</a>".encode()
        response = HtmlResponse(HERE, body=body)
        links, refused = links_of(response, page.lease.profile)
        assert (len(links), dict(refused)) == ((0, {reason: 1}) if reason else (1, {}))
        return
    if way == "redirect":
        follows = redirected(page, target) is not None
    elif way == "refresh":
        body = f"<meta http-equiv=refresh content='0; url={target}'>".encode()
        follows = redirect_of(page, HtmlResponse(HERE, body=body), 10) is not None
    else:
        follows = leads_on(page, target, RedirectRules())
    assert follows == (reason is None)
    assert dict(page.filtered) == ({reason: 1} if reason else {})


@pytest.mark.parametrize(
    ("redirects", "of_seed", "follows"),
    [
        ("seeds", False, False),
        ("seeds", True, True),
        ("scope", False, False),
        ("scope", True, False),
        ("any", False, True),
        ("any", True, True),
    ],
)
@pytest.mark.parametrize(
    ("filters", "target"),
    [("host", "http://b.example/"), ("denied", "/login"), ("extensions", "/x.pdf")],
)
def test_a_crawl_says_which_redirects_it_follows(
    redirects: str, *, of_seed: bool, follows: bool, filters: str, target: str
) -> None:
    """Follows those of seeds by default, none, or all."""
    page = page_of(filters, redirects=redirects, origin=ORIGIN if of_seed else None)
    assert (redirected(page, target) is not None) == follows
    assert page.filtered.total() == (not follows)


@pytest.mark.parametrize(
    ("seed", "hops", "joins"),
    [
        ("http://www.a.example/", ["https://www.a.example/"], None),
        ("http://www.a.example/", ["http://a.example/"], "a.example"),
        ("http://www.a.example/", ["http://a.example/", "https://a.example/"], "a.example"),
        ("http://www.a.example/", ["https://www.new.example/x"], "www.new.example"),
        ("http://www.a.example/", ["http://sso.example/", "http://www.a.example/x"], None),
        ("http://www.a.example/", ["http://a.example/", "http://b.example/"], "b.example"),
        ("http://www.a.example", ["http://www.a.example/"], None),
        ("http://list.example/", ["http://other.example/"], None),
        ("http://www.a.example/", ["http://[::1]:8000/"], "::1"),
    ],
)
@pytest.mark.parametrize("redirects", ["seeds", "any"])
def test_where_the_redirects_of_a_seed_end_is_in_scope(
    seed: str, hops: list[str], joins: str | None, redirects: str
) -> None:
    """The last host takes the seed's place, for all pages below; if the seed was in scope."""
    entry = Entry(url=seed, origin=ORIGIN)
    for target in hops:
        named = {name: getattr(entry, name) for name in ("redirect_urls", "moved_to", "salt")}
        page = page_of("host", url=entry.url, redirects=redirects, origin=ORIGIN, **named)
        found = redirected(page, target)
        assert found is not None
        entry = found
    assert entry.moved_to == joins
    below = page_of("host", url=entry.url, moved_to=entry.moved_to)
    body = b"<a href=/next>x</a><a href=//c.example/>x</a>"
    request = Request(entry.url, meta={PAGE: below})
    response = HtmlResponse(entry.url, body=body, request=request)
    links, refused = links_of(response)
    at_home = joins is not None or "a.example" in entry.url
    assert (len(links), refused["domain"]) == ((1, 1) if at_home else (0, 2))


def test_what_a_seed_has_become_holds_for_all_that_is_found_below() -> None:
    """Plain links, versions, requests of spiders and redirects of links carry it on."""
    page = page_of("host", url="http://a.example/", moved_to="a.example", depth=1)
    response = HtmlResponse("http://a.example/")
    children = Children(page)
    children.follow(["http://a.example/1", "http://a.example/2"], response)
    entries = [decode_entry(entry) for group in children.groups for entry in group.entries]
    assert [(entry.moved_to, entry.depth) for entry in entries] == [("a.example", 2)] * 2
    follows = redirected(page, "http://a.example/x")
    assert follows
    assert follows.moved_to == "a.example"
    assert redirected(page, "http://www.a.example/x")
    assert redirected(page, "http://b.example/x") is None


def test_a_page_outside_of_the_scope_may_redirect_there() -> None:
    """A filter that would refuse a page that a client requested lets it lead on."""
    outside = page_of("host", url="http://b.example/")
    assert redirected(outside, "https://b.example/home")
    assert redirected(outside, "http://www.a.example/paper.pdf") is None
    assert outside.filtered == {"extension": 1}
    unwanted = page_of("prefix", url="http://www.a.example/start")
    assert redirected(unwanted, "/home")


def test_of_what_is_no_page_only_the_host_counts() -> None:
    """A sitemap may move to where no page of its crawl may be."""
    rules = RedirectRules(of_pages=False)
    profile = Profile(maxdepth=1, allowed_domains=("a.example",), deny_regex=("/private/",))
    page = page_at("http://a.example/sitemap.xml", profile=profile)
    assert redirected(page, "/private/sitemap.zip", rules=rules)
    assert redirected(page, "http://b.example/sitemap.xml", rules=rules) is None


class _Rules:
    async def table(self) -> ThrottleTable:
        return ThrottleTable(
            default=ThrottleRule(hits=1, window_s=1), rules={}, blacklist=frozenset({"bad.com"})
        )


@pytest.mark.parametrize("drops", [True, False])
async def test_a_redirect_to_what_is_blocked_is_filtered_where_links_are(*, drops: bool) -> None:
    """The operator's block binds every client; if links wait for its end, the target waits."""
    blacklist = Blacklist(cast(ThrottleRules, cast(Any, _Rules())), drops=drops)
    await blacklist.look()
    for page in (page_of("host", origin=ORIGIN), page_of("none", redirects="any")):
        found = redirected(page, "http://www.bad.com/", rules=RedirectRules(blacklist))
        assert (found is None) == drops
        assert page.filtered == ({"blacklist": 1} if drops else {})
