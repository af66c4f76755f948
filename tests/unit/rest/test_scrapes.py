"""Scrapes in a REST process: names, replies, flights, the bytes of pages, and requests."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import ValidationError

from crawlstream.boot.settings import Settings, load_settings
from crawlstream.errors import InvalidRequest, RedisUnavailable
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.event import PageReply, RecordPlace
from crawlstream.model.request import RequestLimits
from crawlstream.store.bodies import BodyStore
from crawlstream.tasks import beside
from crawlstream.wire.delivered import decode
from crawlstream_frontier.partitions.frontiers import Frontiers
from crawlstream_frontier.scrapes.scrape_names import ScrapeKind, ScrapeNames, is_scrapes, may_come
from rest_service.http.access import Client, Role
from rest_service.http.byte_budget import ByteBudget
from rest_service.http.envelope import RequestRefused, failure
from rest_service.service import Service
from rest_service.topics.flights import REPORTED_EVERY_S, Flight, Flights
from rest_service.topics.page_replies import PageReplies
from rest_service.v2.scrapes.pictures import screenshot_in
from rest_service.v2.scrapes.scrape_order import PageShape, ScrapeOrder, as_crawl
from rest_service.v2.scrapes.scrape_routes import page_of
from support.pipelines.results import record

URL = "https://www.example.com/a"
NAMES = ScrapeNames()


def reply(uuid: str, **fields: Any) -> PageReply:
    """Return a reply about a page that was fetched now."""
    place = RecordPlace("topic", 3, 812)
    crawl = CrawlKey("link", "agents", "scrape")
    told = {"uuid": uuid, "crawl": crawl, "run": 1, "server_time": int(time.time())}
    return PageReply(**{**told, "id": "f" * 32, "url": URL, "place": place, **fields})


def client(**fields: Any) -> Client:
    """Return a client that may submit."""
    return Client("me", Role.SUBMIT, **fields)


@pytest.mark.parametrize(("deadline", "minutes"), [(30, 2), (120, 2), (121, 15), (3600, 60)])
def test_a_name_says_until_when_its_page_may_come(deadline: int, minutes: int) -> None:
    """Any process can say it; ids of a minute and class share a crawl that is known as theirs."""
    names = ScrapeNames()
    first, second = names.new(deadline), names.new(deadline)
    assert first.id != second.id
    assert may_come(first.id)
    assert max(len(first.id), len(first.crawlid)) <= 40
    assert is_scrapes(first.crawlid)
    assert 60 * minutes <= first.expires - time.time() <= 60 * (minutes + 1)
    assert ScrapeNames().new(deadline).crawlid != first.crawlid


@pytest.mark.parametrize(
    "text",
    ["", "scrape-1", "2611291030-zzzzzz-2-9f1c27d05b6e4a83", f"9913991099-abcdef-2-{16 * 'a'}"],
)
def test_other_ids_are_of_no_scrape(text: str) -> None:
    """Rejects ids of no scrape, of an hour that is over, and of one to come."""
    assert not may_come(text)
    assert not may_come(f"2001010000-abcdef-2-{16 * 'a'}")
    assert not may_come(f"9901010000-abcdef-2-{16 * 'a'}")
    assert not is_scrapes("scrape-of-mine")


async def test_replies_wake_those_who_wait_and_are_kept_for_an_hour() -> None:
    """The latest of several with an id, as after a crash, counts; others are not kept."""
    now = time.time()
    kept = PageReplies(clock=lambda: now)
    seen = list[str]()
    kept.on_arrival = seen.append
    id_ = NAMES.new(30).id
    waiting = [asyncio.create_task(kept.wait(id_, 5)) for _ in range(2)]
    await asyncio.sleep(0)
    kept.arrived(reply(id_))
    kept.arrived(reply("somebody's own"))
    assert [one.uuid for one in await asyncio.gather(*waiting) if one] == [id_, id_]
    kept.arrived(reply(id_, place=RecordPlace("topic", 3, 900)))
    again = await kept.wait(id_, 0)
    assert again is not None
    assert again.place == RecordPlace("topic", 3, 900)
    assert seen == [id_, id_]
    assert await kept.wait("somebody's own", 0) is None
    now += 3_700
    assert await kept.wait(id_, 0) is None


async def test_a_reply_that_was_given_up_is_dropped_when_it_comes() -> None:
    """The client is not woken by it, and does not get it later."""
    kept = PageReplies()
    id_ = NAMES.new(30).id
    assert await kept.wait(id_, 0.01) is None
    kept.drop(id_)
    kept.arrived(reply(id_))
    assert kept.is_dropped(id_)
    assert await kept.wait(id_, 5) is None


async def test_the_page_of_another_application_does_not_exist() -> None:
    """Answer 404 to a key of other applications, and 200 to one of the scrape's own."""
    kept = PageReplies()
    service = cast(Service, SimpleNamespace(flights=Flights(), pages_replied=kept))
    id_ = NAMES.new(60).id
    kept.arrived(reply(id_, place=None, reason="dns"))
    found = await page_of(service, client(appids=frozenset({"agents"})), id=id_)
    assert found.status_code == 200
    with pytest.raises(RequestRefused) as refused:
        await page_of(service, client(appids=frozenset({"others"})), id=id_)
    assert refused.value.status == 404


def flight(name: str, equal: object = None) -> Flight:
    """Return a flight to one site."""
    return Flight(name, "agents", 0, int(time.time()) + 120, 0.0, equal=equal)


def test_equal_scrapes_share_a_flight_until_its_page_comes() -> None:
    """Its end is reported to the door, once."""
    flights = Flights()
    flights.add(one := flight("1", ("same",)))
    flights.add(flight("2"))
    assert flights.join(("same",)) is one
    assert one.callers == 2
    assert flights.join(("other",)) is None
    assert flights.join(None) is None
    flights.end("1")
    flights.end("1")
    assert flights.join(("same",)) is None
    assert [*flights.take_ended(0)] == ["1"]
    assert not flights.take_ended(0)


async def test_the_end_of_a_scrape_of_another_process_is_reported_everywhere() -> None:
    """That process may be dead, and the partition is not known; an id that is over is left out."""
    flights, told = Flights(), list[tuple[int, Sequence[str]]]()

    class Site:
        def __init__(self, partition: int) -> None:
            self.door, self._partition = self, partition

        async def leave(self, ended: Sequence[str]) -> None:
            told.append((self._partition, ended))
            if self._partition == 0:
                raise RedisUnavailable

    foreign = NAMES.new(30).id
    flights.add(flight("1"))
    for id_ in ("1", foreign, f"2001010000-abcdef-2-{16 * 'a'}"):
        flights.arrived(id_)
    frontiers = cast(Frontiers, [Site(0), Site(1)])
    async with beside(flights.report(frontiers)):
        await asyncio.sleep(2.5 * REPORTED_EVERY_S)
    assert told == [(0, ("1", foreign)), (1, (foreign,))]


def test_a_flight_whose_reply_was_lost_ends_at_its_deadline() -> None:
    """Ends a flight without a reply at its deadline, and frees memory and the client's limit."""
    flights = Flights()
    flights.add(replace_expiry(flight("1", ("same",)), -100))
    assert flights.join(("same",)) is None
    flights.add(flight("2"))
    assert len(flights) == 1


def replace_expiry(one: Flight, seconds: int) -> Flight:
    """Return a flight that expires in this many seconds."""
    return replace(one, expires=int(time.time()) + seconds)


async def test_pages_in_work_have_so_many_bytes_at_a_time() -> None:
    """Others wait in order of arrival, but not for a client that has its half.

    A page larger than half has half of them.
    """
    budget = ByteBudget(100, patience_s=0.05)
    async with budget.of("a", 40):
        async with budget.of("b", 50), budget.of("c", 10):
            assert budget.left == 0
            with pytest.raises(RequestRefused) as refused:
                async with budget.of("c", 1):
                    pass
            assert refused.value.status == 503
        order = list[str]()

        async def take(client: str, size: int) -> None:
            async with budget.of(client, size):
                order.append(f"{client} {size}")
                await asyncio.sleep(0.01)

        wishes = [("a", 1000), ("a", 20), ("b", 30), ("c", 40), ("c", 5)]
        waiting = [asyncio.create_task(take(*wish)) for wish in wishes]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert order == ["b 30"]
    await asyncio.gather(*waiting)
    assert order[1:3] == ["a 1000", "c 40"]
    assert budget.left == 100


async def test_bytes_of_a_cancelled_request_are_free_again() -> None:
    """While it waits, and when it has just got them."""
    budget = ByteBudget(10)
    async with budget.of("a", 5):
        waiting = [asyncio.create_task(budget.of("a", 5).__aenter__()) for _ in range(2)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.wait(waiting[:1])
        assert budget.left == 5
    waiting[1].cancel()
    await asyncio.wait(waiting)
    assert all(task.cancelled() for task in waiting)
    assert budget.left == 10


def test_what_comes_later_is_refused_by_name() -> None:
    """Refuses options of later versions by their names, and feeds nothing."""
    with pytest.raises(RequestRefused) as refused:
        ScrapeOrder(url=URL, formats=["markdown", "json"]).check()
    told = (refused.value.status, refused.value.details["code"])
    assert told == (422, "format_not_available")


@pytest.mark.parametrize(
    "fields",
    [
        {"formats": []},
        {"formats": ["pdf"]},
        {"wait": 61},
        {"deadline": 5},
        {"max_chars": 10},
        {"maxdepth": 1},
        {"appid": "x"},
    ],
)
def test_values_outside_of_their_bounds_are_refused(fields: dict[str, Any]) -> None:
    """Rejects values outside of their bounds, and unknown fields."""
    with pytest.raises(ValidationError):
        ScrapeOrder.model_validate({"url": URL, **fields})


def test_a_scrape_is_a_seed_of_the_highest_priority() -> None:
    """It goes no deeper, remembers nothing, and wants a reply with the place of its page."""
    order = ScrapeOrder(url="WWW.example.com/a", render=True, headers={"a": "b"})
    name = NAMES.new(order.deadline)
    seed = as_crawl(order.seed("agents", name), RequestLimits())
    assert (seed.priority, seed.maxdepth, seed.remember) == (100, 0, 0)
    assert (seed.crawlid, seed.expires, seed.uuid) == (name.crawlid, name.expires, name.id)
    assert seed.render is not None
    assert seed.headers == {"a": "b"}
    with pytest.raises(InvalidRequest):
        as_crawl(ScrapeOrder(url="file:///etc/passwd").seed("agents", name), RequestLimits())


@pytest.mark.parametrize(
    ("fields", "wish"),
    [
        ({}, None),
        ({"formats": ["screenshot"]}, {"screenshot": "viewport"}),
        ({"formats": ["screenshot"], "render": True}, {"screenshot": "viewport"}),
        (
            {"formats": ["screenshot"], "render": {"screenshot": "full", "wait_ms": 9}},
            {"screenshot": "full", "wait_ms": 9},
        ),
        ({"render": {"screenshot": "full"}}, {"screenshot": "full"}),
        ({"render": "auto"}, {"auto": True}),
        ({"render": {"actions": [{"scroll": 1}]}}, {"actions": [{"scroll": 1}]}),
    ],
)
def test_a_screenshot_needs_a_browser(fields: dict[str, Any], wish: object) -> None:
    """Renders a page in which the client wants more than its document, and never shares it."""
    order = ScrapeOrder(url=URL, **fields)
    order.check()
    request = as_crawl(order.seed("agents", NAMES.new(order.deadline)), RequestLimits())
    assert request.render == wish
    assert order.kind is (ScrapeKind.PRIVATE if wish else ScrapeKind.PLAIN)


async def test_a_screenshot_is_answered_from_the_record_or_the_store(tmp_path: Path) -> None:
    """Returns the picture itself, else where it is, or the reason why there is none."""
    store = BodyStore.at(str(tmp_path))
    png, digest = b"\x89PNG", hashlib.sha256(b"\x89PNG").hexdigest()
    ref = {"sha256": digest, "ref": store.put(png)}
    found = {**ref, "body": "iVBORw=="}
    with_store, bare = load_settings(body_store=str(tmp_path)), load_settings()
    cases: list[tuple[Settings, dict[str, Any], object, str]] = [
        (bare, {"screenshot": {"width": 1}, "screenshot_body": png}, "iVBORw==", ""),
        (with_store, {"screenshot": ref}, found["body"], ""),
        (bare, {"screenshot": ref}, None, "screenshot: unreachable"),
        (with_store, {"screenshot": {"sha256": "../x"}}, None, "screenshot: unreachable"),
        (bare, {"screenshot": {"error": "moved"}}, None, "screenshot: moved"),
        (bare, {}, None, "screenshot: not_taken"),
    ]
    for settings, fields, body, problem in cases:
        told, problems = await screenshot_in(settings, decode(record(1, **fields)))
        assert (told or {}).get("body") == body, fields
        assert problems == ([problem] if problem else [])


def test_only_scrapes_without_secrets_are_shared() -> None:
    """A page that was fetched with a login is for its client alone."""

    def equal(**fields: Any) -> object:
        order = ScrapeOrder(url=URL, **fields)
        name = NAMES.new(order.deadline)
        appid = fields.get("appid", "agents")
        return order.equal(as_crawl(order.seed(appid, name), RequestLimits()), name)

    assert equal() == equal(formats=["links"], wait=0) is not None
    assert equal(headers={"Authorization": "x"}) is None
    assert equal(cookie="a=1") is None
    different = [equal(), equal(render=True), equal(appid="other"), equal(useragent="mine")]
    assert len(set(different)) == 4


def test_the_application_is_the_keys() -> None:
    """A key that has one needs not name it, and may name no other."""
    order = ScrapeOrder(url=URL)
    assert order.appid_for(client()) == "scrape"
    assert order.appid_for(client(appids=frozenset({"shop"}))) == "shop"
    with pytest.raises(RequestRefused):
        order.appid_for(client(appids=frozenset({"shop", "news"})))
    with pytest.raises(RequestRefused):
        ScrapeOrder(url=URL, appid="other").appid_for(client(appids=frozenset({"shop"})))


def test_formats_are_made_once_each() -> None:
    """Makes each format once, in the order in which they were named."""
    shape = PageShape.of(["links", "text", "links"], main=True, max_chars=1000)
    assert shape.formats == ("links", "text")


def test_a_refusal_says_when_to_come_again() -> None:
    """Says in whole seconds, rounded up, when a refused call may be repeated."""
    refused = RequestRefused(429, "Busy.", code="site_busy", retry_after_s=2.2)
    assert failure(refused).headers["Retry-After"] == "3"
    assert failure(RequestRefused(503, "Busy.")).headers["Retry-After"] == "1"
