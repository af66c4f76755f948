"""State of a page after each event, and the time of its next visit."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlstream.model.crawl import FiringKey
from crawlstream.wire.delivered import decode
from pipeline_service.memory.known_page import WHOLE_EVERY, KnownPage, is_news, learn
from pipeline_service.memory.seen import Seen, Sight, key_of, listed_in, seen_in, sight_of
from pipeline_service.memory.seen_maker import SeenMaker
from pipeline_service.records.judging import judge
from pipeline_service.spec.config import read
from pipeline_service.spec.memory import PagesSink
from pipeline_service.spec.rule import (
    DAY_S,
    Bounds,
    Clock,
    Experience,
    IntervalRule,
    Paced,
    base_for,
    visits_a_day,
)
from pipeline_service.staging import opened
from support.pipelines.results import record
from support.pipelines.writer import batch_of

RULE = IntervalRule()
HOUR_S = 3_600.0
PLAIN = Bounds()


def seen(at: float, sight: Sight = Sight.THERE, **more: Any) -> Seen:
    """Return a record of a page at a time."""
    told: dict[str, Any] = {
        "key": "k",
        "appid": "app",
        "url": "http://example.com/",
        "domain": "example.com",
        "spiderid": "link",
        "id": f"{at}",
        "at": at,
        "sight": sight,
        "status": 200,
        "signature": "a" if sight is Sight.THERE else None,
    }
    return Seen(**{**told, **more})


def after(*said: Seen, rule: IntervalRule = RULE) -> KnownPage:
    """Return the state of a page after all of these records."""
    page = None
    for each in said:
        page = learn(page, each, rule)
    assert page is not None
    return page


def visited(changes: str, every_s: float) -> KnownPage:
    """A page after visits at an interval, ``x`` where it had changed."""
    said, content = [seen(1.0)], 0
    for number, change in enumerate(changes, 1):
        content += change == "x"
        said.append(seen(1 + number * every_s, signature=str(content) if content else "a"))
    return after(*said)


@given(st.integers(1, 40), st.data(), st.floats(60, 30 * DAY_S))
def test_a_page_that_changes_more_often_is_visited_no_less_often(
    visits: int, data: st.DataObject, every_s: float
) -> None:
    """Visits a page that changes more often at least as often, within the bounds."""
    few = data.draw(st.integers(0, visits))
    many = data.draw(st.integers(few, visits))
    bounds = RULE.bounds_of("http://example.com/", "example.com")
    intervals = []
    for changes in (few, many):
        experience = Experience(visits, changes, visits * every_s)
        intervals.append(RULE.interval_s(experience.rate(bounds.least_s), bounds))
    assert bounds.least_s <= intervals[1] <= intervals[0] <= bounds.most_s


@pytest.mark.parametrize("every_s", [600.0, DAY_S, 20 * DAY_S])
def test_changes_are_estimated_by_what_visits_find(every_s: float) -> None:
    """Visits only find the last of the changes between them."""
    for probability in (0.1, 0.5, 0.9):
        rate = -math.log(1 - probability) / every_s * DAY_S
        experience = Experience(4_000, 4_000 * probability, 4_000 * every_s)
        assert experience.rate(HOUR_S) == pytest.approx(rate, rel=0.1)


def test_two_visits_in_a_row_say_little() -> None:
    """A page that another crawl has fetched a second later is not taken for one that changes."""
    first = after(seen(1.0))
    again = after(seen(1.0), seen(2.0))
    assert again.interval_s == pytest.approx(first.interval_s, rel=0.1)


def test_what_was_long_ago_counts_less() -> None:
    """A page that has become quiet is visited more and more seldom."""
    busy = visited("x" * 20, HOUR_S)
    quiet = visited("x" * 20 + "." * 40, HOUR_S)
    assert quiet.interval_s > 1.5 * busy.interval_s
    assert (quiet.visits, quiet.changes) == (60, 20)


def test_visits_that_were_fed_at_once_do_not_stay_together() -> None:
    """The next visit is within a twentieth of the interval, by the record."""
    pages = [after(seen(1.0, id=str(number))) for number in range(200)]
    delays = {page.next_visit - 1.0 for page in pages}
    least, most = min(delays), max(delays)
    middle = pages[0].interval_s
    assert 0.95 * middle <= least < 0.97 * middle
    assert 1.03 * middle < most <= 1.05 * middle


def test_a_page_unmodified_has_not_changed() -> None:
    """A 304 has no content; what was known of it stays."""
    page = after(
        seen(1.0, etag='"1"', last_modified="then"),
        seen(DAY_S, Sight.UNMODIFIED, status=304),
    )
    assert (page.visits, page.changes, page.signature) == (1, 0, "a")
    assert page.validators == ('"1"', "then")


def test_a_page_that_is_first_heard_of_unmodified_is_asked_for_whole() -> None:
    """Its content is unknown, so its first content does not count as a change."""
    page = after(seen(1.0, Sight.UNMODIFIED, etag='"1"'))
    assert page.validators == (None, None)
    page = after(seen(1.0, Sight.UNMODIFIED, etag='"1"'), seen(DAY_S, etag='"1"'))
    assert (page.changes, page.is_liar) == (0, False)
    assert page.validators == ('"1"', None)


def test_every_tenth_visit_asks_for_the_whole_page() -> None:
    """Requests the whole page at every tenth visit, whatever the site says of it."""
    said = [seen(1.0, etag='"1"')]
    asked = []
    for number in range(1, 2 * WHOLE_EVERY + 1):
        asked.append(after(*said).validators[0])
        said.append(seen(number * DAY_S, Sight.UNMODIFIED))
    assert [number for number, etag in enumerate(asked) if etag is None] == [9, 19]


@pytest.mark.parametrize(
    ("first", "second", "lies"),
    [
        ({"etag": '"1"'}, {"etag": '"1"'}, True),
        ({"etag": '"1"'}, {"etag": '"2"'}, False),
        ({"last_modified": "then"}, {"last_modified": "then"}, True),
        ({"last_modified": "then"}, {"last_modified": "now"}, False),
        ({"etag": '"1"', "last_modified": "then"}, {"etag": '"1"', "last_modified": "now"}, True),
        ({}, {}, False),
    ],
)
def test_a_liar_is_not_asked_conditionally_again(
    *, first: dict[str, Any], second: dict[str, Any], lies: bool
) -> None:
    """Its page has changed, but what it says of it has not."""
    said = [seen(1.0, **first), seen(DAY_S, signature="b", **second)]
    assert after(*said).is_liar is lies
    later = after(*said, seen(2 * DAY_S, signature="b", etag='"9"'))
    assert later.validators == ((None, None) if lies else ('"9"', None))


def test_a_page_is_gone_after_the_second_answer() -> None:
    """It is asked for soon once more, then as seldom as is allowed; and whole when it is back."""
    said = [seen(1.0, etag='"1"'), seen(DAY_S, Sight.GONE, status=404)]
    once = after(*said)
    assert not once.is_gone
    assert once.next_visit - DAY_S == pytest.approx(HOUR_S, rel=0.06)
    said.append(seen(2 * DAY_S, Sight.GONE, status=410))
    twice = after(*said)
    assert twice.is_gone
    assert twice.next_visit - 2 * DAY_S == pytest.approx(60 * DAY_S, rel=0.06)
    assert twice.validators == (None, None)
    back = after(*said, seen(3 * DAY_S, signature="a"))
    assert (back.is_gone, back.gone, back.visits, back.changes) == (False, 0, 1, 0)


def test_failures_are_tried_again_less_and_less_often() -> None:
    """Retries failures after two hours up to seven days, and learns nothing of changes."""
    page, at = after(seen(1.0)), 1.0
    pauses_h = []
    for _ in range(10):
        at += DAY_S
        failed = learn(page, seen(at, Sight.FAILED, status=503), RULE)
        assert failed is not None
        page = failed
        pauses_h.append((page.next_visit - at) / HOUR_S)
    assert page.fails == 10
    expected = [min(2**n, 7 * 24) for n in range(1, 11)]
    assert pauses_h == pytest.approx(expected, rel=0.06)
    assert page.experience == Experience()
    assert after(seen(1.0), seen(2.0, Sight.FAILED), seen(DAY_S)).fails == 0


def test_a_page_that_leads_elsewhere_is_asked_for_seldom() -> None:
    """Four times as seldom; its target is a page of its own."""
    page, moved = after(seen(1.0)), after(seen(1.0, etag='"1"'), seen(DAY_S, Sight.MOVED))
    assert moved.interval_s == pytest.approx(4 * page.interval_s)
    assert moved.etag is None


@pytest.mark.parametrize("sight", [Sight.GONE, Sight.FAILED, Sight.MOVED])
def test_what_was_never_there_is_not_remembered(sight: Sight) -> None:
    """Links to nowhere would fill the memory."""
    assert learn(None, seen(1.0, sight), RULE) is None


def test_older_records_change_nothing() -> None:
    """Records may repeat, or be of a partition that is behind."""
    page = after(seen(5.0))
    assert not is_news(page, seen(5.0))
    assert not is_news(page, seen(4.0, id="x"))
    assert is_news(page, seen(6.0))


def test_all_visits_come_to_what_is_allowed() -> None:
    """The base follows from the pages there are, within their bounds."""
    pages = [Paced(pace, PLAIN, 1_000) for pace in range(-30, 30, 5)]
    for per_day in (100, 3_000, 40_000):
        base_s = base_for(per_day, pages)
        assert base_s is not None
        came_to = visits_a_day(base_s, pages)
        floor = 12_000 * DAY_S / PLAIN.most_s
        assert came_to == pytest.approx(max(per_day, floor), rel=0.01)
    assert base_for(10, []) is None


def test_the_first_bounds_that_fit_count() -> None:
    """Applies the first bounds that fit: by domain, by an expression, or for all others."""
    rule = replace(
        RULE,
        bounds=(
            Bounds(least_s=60, domain=frozenset({"example.com"}), url="/news/"),
            Bounds(most_s=DAY_S, domain=frozenset({"example.com"})),
            Bounds(),
        ),
    )
    assert rule.bounds_of("http://www.example.com/news/1", "example.com").least_s == 60
    assert rule.bounds_of("http://www.example.com/old", "example.com").most_s == DAY_S
    assert rule.bounds_of("http://example.org/news/", "example.org") == Bounds()


def test_a_result_tells_of_its_page_and_of_those_that_led_there() -> None:
    """Updates the page and those that led there, by identity and application; limits its clock."""
    page = decode(
        record(
            1,
            url="http://EXAMPLE.com/b?y=1&x=2#top",
            redirect_urls=["http://example.com/a", "no URL"],
            response_headers={b"ETag": [b'"1"'], b"Last-Modified": [b"a", b"b"]},
        )
    )
    now = page.timestamp.timestamp() - 100
    target, source = seen_in(page, Sight.THERE, "s", now)
    assert target.url == "http://example.com/b?y=1&x=2"
    assert target.key == key_of("app", "http://example.com/b?x=2&y=1")
    assert target.key != key_of("other", "http://example.com/b?x=2&y=1")
    assert (target.at, target.etag, target.last_modified) == (now, '"1"', None)
    assert (source.url, source.sight) == ("http://example.com/a", Sight.MOVED)
    assert datetime.fromtimestamp(now, UTC) < page.timestamp


async def signatures(sink: str, *bodies: dict[str, Any], stage: str = "") -> list[str]:
    """Return the signatures of pages with these bodies, by a memory with this sink."""
    told = (
        f'[pipeline.a]\nworkers = 0\n{stage}\nsink = {{kind = "pages", url = "sqlite:///x"{sink}}}'
    )
    pipeline = read(told, {})["a"]
    records = [record(number, **body) for number, body in enumerate(bodies)]
    async with opened([pipeline]) as stagings:
        judged = judge(pipeline, batch_of(records))
        judged = await stagings["a"].run(judged, lambda _: None, lambda _: False)
    assert isinstance(pipeline.sink, PagesSink)
    rows = SeenMaker(pipeline.sink.signature).rows(judged)
    said = [cast("Seen", row.fields["seen"]).signature for row in rows]
    return [each for each in said if each is not None]


async def test_what_is_not_seen_is_no_change() -> None:
    """Scripts and tags do not count, nor digits if so wished; bodies do, where there is no text."""
    plain = [{"body": b"<p>7 o'clock"}, {"body": b"<b>7</b> o'clock<script>x"}]
    seven, same = await signatures("", *plain)
    assert seven == same
    (eight,) = await signatures("", {"body": b"<p>8 o'clock"})
    assert seven != eight
    masked = await signatures(", mask_digits = true", plain[0], {"body": b"<p>8 o'clock"})
    assert masked[0] == masked[1]
    whole = await signatures(', signature = "body"', *plain)
    assert whole[0] != whole[1]
    binary = [
        {"body": b"\x00\x01", "encoding": "binary"},
        {"body": b"\x00\x02", "encoding": "binary"},
    ]
    assert len(set(await signatures("", *binary))) == 2
    assert await signatures("", {"body": b""}) == [""]


async def test_no_stage_hides_from_a_memory_how_a_visit_ended() -> None:
    """A function that finds no product filters pages of others, not answers to visits.

    It does not run at all where nothing came that it could read: its filter, its error and its
    items would all be about an error page.
    """
    pipeline = read(
        """
[pipeline.a]
workers = 0
stage = [{use = "python:support.pipelines.shop:product"}]
sink = {kind = "pages", url = "sqlite:///x", signature = "items", keep = true}
""",
        {},
    )["a"]
    visit, shop, none = FiringKey("visits-a", 1795251000000), b"<h1>Lamp</h1>", b"nothing"
    pages: list[dict[str, Any]] = [
        {"body": shop},
        {"body": none},
        {"body": none, "status_code": 404},
        {"body": shop, "status_code": 503, "firing": visit},
        {"body": b"", "status_code": 304, "firing": visit},
        {"body": none, "firing": visit},
        {"body": none, "firing": FiringKey("others", 1795251000000)},
    ]
    async with opened([pipeline]) as stagings:
        judged = judge(pipeline, batch_of([record(n, **page) for n, page in enumerate(pages)]))
        judged = await stagings["a"].run(judged, lambda _: None, lambda _: False)
    assert [each.outcome for each in judged] == [
        *("delivered", "filtered", "delivered", "delivered", "delivered", "delivered", "filtered")
    ]
    rows = SeenMaker("items", keep=True).rows(judged)
    seen = {row.key: cast("Seen", row.fields["seen"]) for row in rows}
    told = [
        (one.sight, one.items is not None and len(one.items))
        for one in (seen[each.id] for each in judged if each.outcome == "delivered")
    ]
    assert told == [
        *((Sight.THERE, 1), (Sight.GONE, False), (Sight.FAILED, False)),
        *((Sight.UNMODIFIED, False), (Sight.THERE, 0)),
    ]


async def test_pages_with_a_respected_statement_are_gone() -> None:
    """A memory does not add them, and visits those that it has as rarely as missing pages."""
    pipeline = read(
        """
[pipeline.a]
workers = 0
respect = ["noindex"]
stage = [{use = "python:support.pipelines.shop:product"}]
sink = {kind = "pages", url = "sqlite:///x", signature = "items", keep = true}
""",
        {},
    )["a"]
    shop = b"<h1>Lamp</h1>"
    pages: list[dict[str, Any]] = [
        {"body": shop, "directives": ("noindex",)},
        {"body": shop, "directives": ("unavailable_after=5",)},
        {"body": shop, "directives": ("noarchive", "unavailable_after=99999999999")},
        {"status_code": 503, "directives": ("noindex",)},
    ]
    async with opened([pipeline]) as stagings:
        judged = judge(pipeline, batch_of([record(n, **page) for n, page in enumerate(pages)]))
        judged = await stagings["a"].run(judged, lambda _: None, lambda _: False)
    maker = SeenMaker("items", keep=True, is_banned=lambda page: pipeline.ban_of(page) != "")
    seen = [cast("Seen", row.fields["seen"]) for row in maker.rows(judged)]
    told = [(one.sight, one.items is not None) for one in seen]
    assert told == [
        *((Sight.GONE, False), (Sight.GONE, False), (Sight.THERE, True), (Sight.FAILED, False))
    ]
    assert [one.enters for one in seen] == [False, False, True, False]


def test_a_sitemap_tells_when_pages_have_changed() -> None:
    """Times that are none, and those to come, are left out."""
    urls = [f"http://example.com/{n}" for n in range(5)]
    said = ["2026-11-02T01:00:00+01:00", "2026-11-01", "soon", "", "2027-01-01"]
    page = decode(record(1, links=[(url, "") for url in urls], lastmods=said))
    now = datetime(2026, 12, 1, tzinfo=UTC).timestamp()
    found = list(listed_in(page, now))
    assert [each.key for each in found] == [key_of("app", url) for url in urls[:2]]
    days = [datetime.fromtimestamp(each.changed_at, UTC).day for each in found]
    assert days == [2, 1]
    assert not list(listed_in(decode(record(1)), now))


@pytest.mark.parametrize(
    ("status", "sight"),
    [
        (200, "there"),
        (304, "unmodified"),
        (404, "gone"),
        (410, "gone"),
        (403, "failed"),
        (503, "failed"),
        (301, "failed"),
    ],
)
def test_what_a_status_says(status: int, sight: str) -> None:
    """It determines how the requested page was seen."""
    (said,) = seen_in(decode(record(1, status_code=status)), sight_of(status), "s", 2e9)
    assert said.sight == sight
    assert (said.signature is not None) == (sight == "there")


def at(text: str) -> float:
    """Epoch seconds of a local time in Berlin."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo("Europe/Berlin")).timestamp()


@pytest.mark.parametrize(
    ("seen_at", "next_visit"),
    [
        ("2026-11-28T02:29:59", "2026-11-28T02:30"),
        ("2026-11-28T02:30:00", "2026-11-29T02:30"),
        ("2026-11-28T20:00:00", "2026-11-29T02:30"),
        ("2026-03-28T12:00:00", "2026-03-29T03:00"),
    ],
)
def test_a_clock_has_all_pages_visited_at_its_times(seen_at: str, next_visit: str) -> None:
    """Visits all pages at the given times; one in a skipped hour is at the end of the gap."""
    rule = IntervalRule(clock=Clock("30 2 * * *", "Europe/Berlin"))
    first = after(seen(at(seen_at)), rule=rule)
    assert first.next_visit == at(next_visit)
    changed = after(seen(at(seen_at) - DAY_S), seen(at(seen_at), signature="b"), rule=rule)
    assert changed.next_visit == at(next_visit)


def test_a_clock_has_redirects_visited_as_seldom_as_other_rules() -> None:
    """Each visit to one fetches its target as well."""
    rule = IntervalRule(clock=Clock("30 2 * * *", "Europe/Berlin"))
    began = at("2026-11-28T02:31")
    page = after(seen(began - DAY_S), seen(began, Sight.MOVED), rule=rule)
    assert page.next_visit == at("2026-12-02T02:30")


def test_items_are_kept_now_and_before_the_last_change() -> None:
    """A page that never had any keeps none; one whose items vanish keeps that it has none."""
    said = [
        seen(1.0, items=[{"price": 1}]),
        seen(2.0, items=[{"price": 1}]),
        seen(3.0, signature="b", items=[{"price": 2}]),
        seen(4.0, Sight.UNMODIFIED),
    ]
    page = after(*said)
    assert (page.items, page.items_before) == ([{"price": 2}], [{"price": 1}])
    page = after(*said, seen(5.0, signature="c", items=[]))
    assert (page.items, page.items_before) == ([], [{"price": 2}])
    assert after(seen(1.0, items=[]), seen(2.0, items=[])).items is None


def test_a_page_that_is_gone_has_changed_and_again_when_it_is_back() -> None:
    """Counts a change when a page is gone, and one when it is back, without a rate of changes."""
    gone = [seen(1.0), seen(2.0, Sight.GONE)]
    assert after(*gone).last_changed is None
    gone += [seen(3.0, Sight.GONE), seen(4.0, Sight.GONE)]
    assert after(*gone).last_changed == 3.0
    back = after(*gone, seen(5.0))
    assert (back.last_changed, back.changes, back.is_gone) == (5.0, 0, False)
