"""Pages of the last hour that answer further scrapes, and the ids of batches."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.event import PageReply, RecordPlace
from crawlstream_frontier.scrapes.scrape_names import (
    ScrapeKind,
    ScrapeNames,
    comes_until,
    ids_of_batch,
    is_scrape_id,
    kind_of,
    may_come,
)
from rest_service.http.envelope import RequestRefused
from rest_service.topics.flights import Flight
from rest_service.topics.page_replies import PageReplies
from rest_service.topics.recents import RecentKey, recent_key
from rest_service.v2.scrapes.batch import read_orders
from rest_service.v2.scrapes.scrape_order import ScrapeOrder

URL = "https://www.example.com/a"
NAMES = ScrapeNames()
PLAIN = recent_key("agents", URL, ScrapeKind.PLAIN)


def reply(kind: ScrapeKind = ScrapeKind.PLAIN, **fields: Any) -> PageReply:
    """Return a reply about a page that was fetched now."""
    told = {"crawl": CrawlKey("link", "agents", "scrape"), "run": 1, "url": URL, "status_code": 200}
    told |= {"place": RecordPlace("topic", 3, 812), "server_time": int(time.time())}
    return PageReply(**{**told, "uuid": NAMES.new(60, kind).id, **fields})


def found(*replies: PageReply, key: RecentKey | None = PLAIN, max_age: int = 60) -> str | None:
    """Return the id of the page that is found after some replies."""
    kept = PageReplies()
    for one in replies:
        kept.arrived(one)
    page = kept.recents.find(key, time.time() - max_age)
    return page.uuid if page else None


def test_the_latest_page_of_a_url_is_found() -> None:
    """Finds the latest page of a URL by any spelling."""
    first, second = reply(), reply()
    assert found(first, second) == second.uuid
    assert found(first, key=recent_key("agents", f"{URL}#part", ScrapeKind.PLAIN)) == first.uuid


@pytest.mark.parametrize(
    "other",
    [
        reply(ScrapeKind.PRIVATE),
        reply(ScrapeKind.RENDERED),
        reply(crawl=CrawlKey("link", "others", "scrape")),
        reply(url=f"{URL}/b"),
        reply(server_time=int(time.time()) - 100),
        reply(place=None, status_code=None, reason="dns"),
        reply(status_code=503),
        reply(status_code=403),
    ],
)
def test_a_page_that_does_not_fit_is_not_found(other: PageReply) -> None:
    """Pages of a login, of a browser, of others; old ones, failures, and passing troubles."""
    assert found(other) is None


def test_a_private_scrape_finds_nothing() -> None:
    """Its client wants the page as it is for that client."""
    assert recent_key("agents", URL, ScrapeKind.PRIVATE) is None
    assert found(reply(), key=None) is None


def test_a_page_behind_a_redirect_is_found_by_both_urls() -> None:
    """This process knows what was asked for; a page that was given up is found by neither."""
    kept = PageReplies()
    one = reply()
    asked = recent_key("agents", "https://example.com/", ScrapeKind.PLAIN)
    flight = Flight(one.uuid, "agents", 0, int(time.time()) + 60, 0.0, asked=asked)
    kept.on_arrival = lambda _: flight
    kept.arrived(one)
    assert kept.recents.find(asked, 0) == kept.recents.find(PLAIN, 0) == one
    kept.drop(one.uuid)
    assert kept.recents.find(asked, 0) is None


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({}, ScrapeKind.PLAIN),
        ({"render": True}, ScrapeKind.RENDERED),
        ({"render": {"wait": 1}}, ScrapeKind.PRIVATE),
        ({"headers": {}}, ScrapeKind.PRIVATE),
        ({"cookies": {"a": "b"}}, ScrapeKind.PRIVATE),
        ({"useragent": "mine"}, ScrapeKind.PRIVATE),
        ({"obey_robots": False}, ScrapeKind.PRIVATE),
    ],
)
def test_the_kind_of_a_scrape_is_in_its_id(fields: dict[str, Any], kind: ScrapeKind) -> None:
    """Names the kind of a scrape in its id, so that other processes know it."""
    order = ScrapeOrder(url=URL, **fields)
    name = NAMES.new(order.deadline, order.kind)
    assert kind_of(name.id) == order.kind == kind
    assert is_scrape_id(name.id)
    assert len(name.id) <= 40


def test_the_id_of_a_batch_has_those_of_its_scrapes() -> None:
    """Any process finds them; each is that of a scrape, and comes until the same time."""
    batch = NAMES.batch(120, ScrapeKind.PLAIN)
    ids = ids_of_batch(batch.id(3))
    assert ids == [batch.item(number).id for number in range(3)]
    assert len(set(ids)) == 3
    assert all(map(may_come, ids))
    assert {comes_until(one) for one in ids} == {batch.expires}
    assert kind_of(ids[0]) is ScrapeKind.PLAIN
    assert kind_of(ids_of_batch(replace(batch, kind=ScrapeKind.PRIVATE).id(1))[0]) is (
        ScrapeKind.PRIVATE
    )


def test_other_ids_are_of_no_batch() -> None:
    """Rejects other ids of batches, also of more scrapes than a batch may have."""
    for text in ("", NAMES.new(60).id, NAMES.batch(60).id(1001), "x" * 60):
        assert not ids_of_batch(text)


def test_a_batch_is_a_list_or_has_a_line_for_each_scrape() -> None:
    """A single object is a batch of one."""
    raw = b'{"url": "http://a.example/"}'
    assert len(read_orders(raw + b"\n\n" + raw, "application/x-ndjson")) == 2
    assert len(read_orders(b"[%b,%b]" % (raw, raw), "application/json")) == 2
    assert len(read_orders(raw, "application/json")) == 1


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"url\nhttp://a/", "text/csv", 415),
        (b"[]", "application/json", 422),
        (b"[" + b",".join([b'{"url": "http://a/"}'] * 1001) + b"]", "application/json", 422),
        (b"[1", "application/json", 400),
    ],
)
def test_what_is_no_batch_is_refused(body: bytes, kind: str, status: int) -> None:
    """Another type, none, too many, or no JSON."""
    with pytest.raises(RequestRefused) as refused:
        read_orders(body, kind)
    assert refused.value.status == status


def test_a_batch_names_each_scrape_that_is_wrong() -> None:
    """Names each wrong scrape of a batch by place and field, and feeds none."""
    body = b'[{"url": "http://a/"}, {"url": "http://a/", "wait": "1"}, {"formats": []}]'
    with pytest.raises(RequestRefused) as refused:
        read_orders(body, "application/json")
    errors = refused.value.details["errors"]
    assert isinstance(errors, list)
    assert [one.partition(":")[0] for one in errors] == ["$[1].wait", "$[2].url", "$[2].formats"]
