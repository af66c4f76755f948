"""A request that a spider yields arrives in another process as it was, or is refused at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy import Request, Spider

from crawling.links.children import Children, Outlinks
from crawling.page.scrapy_request import INHERITED_META, to_scrapy
from crawlstream.model.crawl import Entry, Profile
from crawlstream.wire.stored import decode_entry
from support.pages import answer, page_at

Callback = Callable[[Any, Any], None]


def decorated(method: Callback) -> Callback:
    """Wrap a method without functools.wraps."""

    def wrapper(self: Any, response: Any) -> None:
        method(self, response)

    return wrapper


class SomeSpider(Spider):
    """A spider with callbacks of all kinds."""

    name = "link"

    def parse_item(self, response: Any) -> None:
        """Do nothing."""

    @decorated
    def parse_decorated(self, response: Any) -> None:
        """Do nothing."""

    @staticmethod
    def parse_static(response: Any) -> None:
        """Do nothing."""

    @classmethod
    def parse_class(cls, response: Any) -> None:
        """Do nothing."""

    def private(self) -> Callable[[Any], None]:
        """Return a method that no other class can name."""
        return self.__mine

    def __mine(self, response: Any) -> None:
        """Do nothing."""


class Helper:
    """No spider."""

    def parse(self, response: Any) -> None:
        """Do nothing; the spider has a method of this name."""

    def parse_item(self, response: Any) -> None:
        """Do nothing."""


class Unhashable(dict[str, str]):
    """Something that can be called and not be looked up."""

    def __call__(self, response: Any) -> None:
        """Do nothing."""


def failed(_failure: Any) -> None:
    """Handle a failure."""


def entries(children: Children) -> list[Entry]:
    """Return every entry of every group."""
    return [decode_entry(entry) for group in children.groups for entry in group.entries]


@pytest.mark.parametrize(
    ("parsed_by", "handed_to", "lane"),
    [
        ("link", "other", "other"),
        ("link", "link", None),
        ("link", None, None),
        ("other", "link", "link"),
        ("other", "other", None),
        ("other", "third", "third"),
    ],
)
def test_a_request_may_be_handed_over_to_another_spider(
    parsed_by: str, handed_to: str | None, lane: str | None
) -> None:
    """Waits for the spider that it names, be it the crawl's, or for the one that yields it."""
    page, spider = page_at(), SomeSpider()
    spider.name = parsed_by
    children = Children(page, spider=spider)
    response = answer(page)
    children.request(Request("http://a.example/1", meta={"spiderid": handed_to}), response)
    children.follow(["http://a.example/2"], response, spiderid=handed_to)
    versions = Outlinks(["http://a.example/3"], spiderid=handed_to, versions=["v"])
    children.follow_versions(versions, response)
    assert {group.spiderid for group in children.groups} == {lane}


def test_a_request_that_copies_the_meta_of_its_page_stays_with_its_spider() -> None:
    """Names the crawl's spider by copying only, and is parsed where it was made."""
    page, spider = page_at(), SomeSpider()
    spider.name = "other"
    children = Children(page, spider=spider)
    meta = to_scrapy(page, spider, failed).meta
    children.request(Request("http://a.example/1", meta={**meta, "mine": 1}), answer(page))
    assert [group.spiderid for group in children.groups] == [None]
    assert entries(children)[0].meta == {"mine": 1}


def test_a_page_handed_back_to_the_spider_of_a_rendered_crawl_is_rendered() -> None:
    """Waits for the crawlers with a browser, as the crawl's own pages do."""
    page, spider = page_at(profile=Profile(render={})), SomeSpider()
    spider.name = "other"
    children = Children(page, spider=spider)
    children.follow(["http://a.example/2"], answer(page), spiderid="link")
    assert [group.spiderid for group in children.groups] == ["link+render"]


def restored(request: Request, spider: Spider | None = None) -> Request:
    """Let a request be yielded, stored, and made again by another process."""
    page, spider = page_at(), spider or SomeSpider()
    children = Children(page, spider=spider)
    children.request(request, answer(page))
    (entry,) = entries(children)
    return to_scrapy(replace(page, lease=replace(page.lease, entry=entry)), spider, failed)


@pytest.mark.parametrize(
    "name", ["parse_item", "parse_decorated", "parse_static", "parse_class", "private"]
)
def test_a_callback_is_the_same_method_in_another_process(name: str) -> None:
    """Finds a method by its name in the class, however it is decorated, mangled or bound."""
    spider = SomeSpider()
    callback = getattr(spider, name)
    callback = callback() if name == "private" else callback
    found: Any = restored(Request("http://a.example/1", callback), spider).callback
    assert getattr(found, "__func__", found) is getattr(callback, "__func__", callback)


@pytest.mark.parametrize(
    ("cookies", "header"),
    [
        ({"a": b"x", b"b": "y"}, b"a=x; b=y"),
        ({"a": 1, "b": 1.5, "c": True}, b"a=1; b=1.5; c=True"),
        ([{"name": "a", "value": ""}, {"name": b"b", "value": "2", "path": "/"}], b"a=; b=2"),
        ([{"name": "a", "value": "1", "domain": ".A.example", "secure": False}], b"a=1"),
    ],
)
def test_cookies_are_sent_as_they_were_given(cookies: Any, header: bytes) -> None:
    """Decodes bytes, writes numbers, and reads a list as Scrapy does."""
    assert restored(Request("http://a.example/1", cookies=cookies)).headers["Cookie"] == header


@given(
    st.binary(max_size=40),
    st.dictionaries(
        st.text("aé日😀_", min_size=1).filter(lambda key: key not in INHERITED_META),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats(allow_nan=False)
            | st.text("aé日😀"),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
            max_leaves=8,
        ),
        max_size=4,
    ),
)
def test_body_and_meta_arrive_as_they_were_yielded_or_are_refused(
    body: bytes, meta: dict[str, Any]
) -> None:
    """Keeps each octet of a body and each value of JSON; refuses what it cannot keep."""
    request = Request("http://a.example/1", method="POST", body=body, meta=meta)
    if _has_infinity(meta):
        with pytest.raises(TypeError, match="cannot be stored"):
            restored(request)
        return
    found = restored(request)
    assert found.body == body
    assert {key: found.meta[key] for key in meta} == meta


def _has_infinity(value: object) -> bool:
    """Return whether a number in it is infinite; a text may have any letters."""
    if isinstance(value, dict):
        return any(map(_has_infinity, value.values()))
    if isinstance(value, list):
        return any(map(_has_infinity, value))
    return isinstance(value, float) and math.isinf(value)


SELF: dict[str, Any] = {}
SELF["x"] = SELF


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"callback": failed}, "not a method of its spider"),
        ({"callback": lambda _: None}, "not a method of its spider"),
        ({"callback": partial(SomeSpider().parse_item)}, "not a method of its spider"),
        ({"callback": Helper().parse_item}, "not a method of its spider"),
        ({"callback": Helper().parse}, "not a method of its spider"),
        ({"callback": Unhashable()}, "not a method of its spider"),
        ({"callback": SomeSpider().parse_item, "cb_kwargs": {"x": 1}}, "cb_kwargs"),
        ({"cb_kwargs": {"x": 1}}, "cb_kwargs"),
        ({"cookies": [{"name": "a"}]}, "no name or no value"),
        ({"cookies": [{"name": "a", "value": "1", "domain": "b.example"}]}, "another domain"),
        ({"cookies": [{"name": "a", "value": "1", "path": "/other"}]}, "another domain, path"),
        ({"cookies": [{"name": "a", "value": "1", "secure": True}]}, "or scheme"),
        ({"cookies": {"a": b"\xff"}}, "not UTF-8"),
        ({"cookies": {"a": None}}, "not text"),
        ({"cookies": {"a": "\ud800"}}, "not text"),
        ({"headers": {"X-A": b"\xff"}}, "the header X-A .* is not UTF-8"),
        ({"meta": {"x": object()}}, "'x' is or contains object"),
        ({"meta": {"x": [datetime(2026, 1, 1)]}}, "datetime"),  # noqa: DTZ001
        ({"meta": {"x": {1, 2}}}, "set"),
        ({"meta": {"x": b"1"}}, "bytes"),
        ({"meta": {"x": float("nan")}}, "nan"),
        ({"meta": {"x": {1: 2}}}, "the key 1"),
        ({"meta": {1: 2}}, "1 is or contains"),
        ({"meta": {"x": "\ud800"}}, "surrogate"),
        ({"meta": {"x": 10**4300}}, "digits"),
        ({"meta": SELF}, "levels"),
        ({"meta": {"x": "x" * 300_000}}, "too large"),
        ({"meta": {"spiderid": 7}}, "not a valid spider name"),
        ({"meta": {"spiderid": "x" * 256}}, "not a valid spider name"),
        ({"meta": {"spiderid": "a\nb"}}, "not a valid spider name"),
        ({"meta": {"spiderid": "\ud800"}}, "not a valid spider name"),
    ],
)
def test_what_cannot_travel_is_refused_when_it_is_yielded(
    given: dict[str, Any], problem: str
) -> None:
    """Names the request and what is wrong with it; nothing of it enters."""
    page = page_at()
    children = Children(page, spider=SomeSpider())
    with pytest.raises((TypeError, ValueError), match=problem) as refused:
        children.request(Request("http://a.example/1", **given), answer(page))
    assert "http://a.example/1" in str(refused.value)
    assert not children.groups
