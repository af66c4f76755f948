"""Requests for a browser, and the data of a crawl that it gets."""

from __future__ import annotations

from typing import Any

import pytest

from crawling.page.page import Page
from crawling.render.cookies import cookies_of
from crawling.render.visit import RenderOptions
from crawlstream.errors import InvalidRequest
from crawlstream.model.crawl import Entry, Profile
from crawlstream.model.egress.render import lane_of, render_wish, spider_of
from crawlstream.model.request import CrawlRequest, RequestLimits
from crawlstream.wire import jsontext, requests
from crawlstream.wire.crawl_request import crawl_request
from support.crawler.leases import lease

FIELDS = {"appid": "app", "crawlid": "c", "url": "http://a.example/"}


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (None, None),
        (False, None),
        (True, {}),
        ({}, {}),
        ({"wait_ms": 0, "wait_for": None}, {}),
        ({"wait_for": "a", "types": []}, {"wait_for": "a", "types": []}),
        ({"actions": []}, {}),
    ],
)
def test_a_wish_has_one_spelling(said: Any, meant: Any) -> None:
    """However a client says it, equal wishes are equal profiles."""
    assert render_wish(said) == meant
    assert crawl_request({**FIELDS, "render": said}, RequestLimits()).render == meant


def test_options_have_defaults() -> None:
    """Options left out are as the operator has them."""
    assert RenderOptions.of({"types": ["image"]}) == RenderOptions(types=("image",))
    assert RenderOptions.of(None) == RenderOptions()


@pytest.mark.parametrize(
    "fields", [{"method": "POST", "render": True}, {"spiderid": "link+render"}]
)
def test_what_no_browser_can_do_is_refused(fields: dict[str, Any]) -> None:
    """Only GET is rendered, and clients cannot name the crawlers that render."""
    with pytest.raises(InvalidRequest):
        crawl_request({**FIELDS, **fields}, RequestLimits())


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ("viewport", None),
        ("full", None),
        ("element:#a > b", None),
        (None, None),
        ("element:", "must match"),
        ("page", "must match"),
        ("element:" + "a" * 201, "characters"),
        ("element:a\nb", "control characters"),
        (True, "must be string, null, not a boolean"),
    ],
)
def test_a_part_of_a_page_is_named_as_documented(part: Any, problem: str | None) -> None:
    """Accepts the window, the whole page or an element, and names the field otherwise."""
    value = jsontext.dumps({**FIELDS, "render": {"screenshot": part}})
    if problem is None:
        request = requests.decode(value)
        assert isinstance(request, CrawlRequest)
        assert RenderOptions.of(request.render).screenshot == part
        return
    with pytest.raises(InvalidRequest) as refused:
        requests.decode(value)
    assert refused.value.problems[0].startswith("$.render.screenshot: ")
    assert problem in str(refused.value.problems)


@pytest.mark.parametrize(
    ("actions", "problem"),
    [
        ([{"scroll": 100}, {"click": "a", "times": 3}, {"wait": 10_000}, {"wait": "#a"}], None),
        ([{"fill": "#q", "text": ""}, {"press": "Enter"}, {"press": "é"}, {"press": " "}], None),
        ([{"select": "#s", "value": "é"}, {"hover": "nav > a"}] * 10, None),
        ([{"hover": "a"}] * 21, "actions: must have at most 20 entries (got 21)"),
        ([{}], "actions[0]: needs exactly one of scroll, click, wait"),
        ([{"wait": 1}, {"click": "a", "wait": 5}], "actions[1]: needs exactly one of scroll"),
        ([{"tap": "a"}], "actions[0]: unknown field 'tap'"),
        ([{"fill": "#a"}], "actions[0]: `fill` needs `text`"),
        ([{"select": "#a"}], "actions[0]: `select` needs `value`"),
        ([{"hover": "a", "times": 2}], "actions[0]: `hover` has no `times`"),
        ([{"click": "a", "times": 0}], "actions[0].times: must be from 1 to 100 (got 0)"),
        ([{"scroll": 101}], "actions[0].scroll: must be from 1 to 100 (got 101)"),
        ([{"wait": 10_001}], "actions[0].wait: must be from 0 to 10000 (got 10001)"),
        ([{"wait": True}], "actions[0].wait: must be string, integer, not a boolean"),
        ([{"press": "Return"}], "actions[0].press: must match ^(.|Enter|"),
        ([{"click": ""}], "actions[0].click: must have 1-200 characters (got 0)"),
        (["click"], "actions[0]: must be object, not a string"),
        ({"click": "a"}, "actions: must be array, null, not an object"),
    ],
)
def test_actions_are_written_as_documented(actions: Any, problem: str | None) -> None:
    """Accepts each verb with its fields, and says of any other action what is wrong with it."""
    value = jsontext.dumps({**FIELDS, "render": {"actions": actions}})
    if problem is None:
        request = requests.decode(value)
        assert isinstance(request, CrawlRequest)
        assert RenderOptions.of(request.render).actions == tuple(actions)
        return
    with pytest.raises(InvalidRequest) as refused:
        requests.decode(value)
    assert refused.value.problems[0].startswith(f"$.render.{problem}")


def test_a_lane_is_told_from_its_spider() -> None:
    """Both ways."""
    assert lane_of("link", renders=False) == "link"
    assert spider_of(lane_of("link", renders=True)) == "link"


def test_cookies_are_for_the_own_domain_or_the_host() -> None:
    """Cookies of the client for the seed's own domain, those of a redirect for one host."""
    profile = Profile(cookies={"k": "v"}, site="https://a.example")
    entry = Entry(url="https://www.a.example/", cookies={"s": "1"})
    page = Page(lease(entry=entry, profile=profile), "id")
    given, own = cookies_of(page, entry.url, "k=v; s=1; odd")
    assert given["domain"] == "a.example"
    assert given["secure"]
    assert "domain" not in own


def test_an_address_has_no_cookies_for_others() -> None:
    """Nor has a single label."""
    entry = Entry(url="http://127.0.0.1/")
    page = Page(lease(entry=entry, profile=Profile(site="127.0.0.1")), "id")
    (cookie,) = cookies_of(page, entry.url, "k=v=w")
    assert "domain" not in cookie
    assert cookie["value"] == "v=w"
