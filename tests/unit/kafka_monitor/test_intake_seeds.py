"""The cache of former seeds makes the next ones quicker, and changes nothing."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlstream.bus.records import Record
from crawlstream.errors import InvalidRequest, InvalidUrl
from crawlstream.model.crawl import Entry
from crawlstream.model.effects import Effect, Seed
from crawlstream.model.recurring.schedule import Occasion
from crawlstream.model.request import RequestLimits
from crawlstream.plugins.handlers import Router
from crawlstream.wire.stored import decode_entry, encode_entry, encode_seed
from kafka_monitor.plugins.scraper_handler import LONGEST_PATTERN, PATTERNS, ScraperHandler

BASE: dict[str, Any] = {"url": "http://a.example/", "appid": "app", "crawlid": "one"}

_URLS = st.sampled_from(
    ["http://a.example/x", "b.example", "https://c.example:8443/?b=1&a=2", "file:///etc/passwd", ""]
)
_OTHERS = st.fixed_dictionaries(
    {},
    optional={
        "crawlid": st.sampled_from(["one", "two"]),
        "priority": st.sampled_from([1, 1.0, True, 5]),
        "maxdepth": st.sampled_from([0, 2, 101]),
        "cookie": st.sampled_from([None, "a=b"]),
        "attrs": st.sampled_from([None, {"n": 1}, {"n": 1.0}, {"n": True}, {"n": 2**70}]),
        "allow_regex": st.sampled_from([None, ["x"], ["("]]),
        "method": st.sampled_from(["GET", "POST"]),
        "body": st.sampled_from([None, "text"]),
        "uuid": st.sampled_from(["u1", "u2"]),
        "expires": st.sampled_from([0, 4_000_000_000]),
        "remember": st.sampled_from([None, 0, 60]),
        "etag": st.sampled_from([None, '"a"', '"b-gzip"']),
        "last_modified": st.sampled_from([None, "Sun, 06 Nov 1994 08:49:37 GMT", "yesterday"]),
        "occasion": st.sampled_from(
            [
                None,
                {"schedule": "s", "at": 1_700_000_000, "n": 0},
                {"schedule": "s", "at": 1_700_000_000, "n": 1},
                {"schedule": "s", "at": 1_600_000_000, "n": 1},
            ]
        ),
    },
)
_REQUESTS = st.builds(lambda url, others: {**BASE, **others, "url": url}, _URLS, _OTHERS)


def effect_of(router: Router, fields: dict[str, Any]) -> Effect | str | None:
    """Outcome of a request: its seed, or the refusal as text."""
    raw = json.dumps(fields).encode()
    record = Record("demo.incoming", 2, 40, 1_700_000_000_000, None, raw)
    try:
        handler, request = router.route(raw)
        return asyncio.run(handler.handle(request, record))
    except (InvalidRequest, InvalidUrl) as error:
        return str(error)


def fresh() -> Router:
    """A router that has seen nothing yet."""
    return Router([ScraperHandler()], RequestLimits())


@settings(max_examples=30)
@given(st.lists(_REQUESTS, min_size=2, max_size=8))
def test_a_seed_is_the_same_whatever_came_before_it(requests: list[dict[str, Any]]) -> None:
    """Makes the same seed of a request, alone or among similar ones, number types included."""
    router = fresh()
    for fields in [*requests, *requests]:
        seen, alone = effect_of(router, fields), effect_of(fresh(), fields)
        if isinstance(alone, str):
            assert isinstance(seen, str)
        else:
            assert repr(seen) == repr(alone)


def test_little_is_remembered() -> None:
    """Keeps few shapes of requests, and no huge ones."""
    handler = ScraperHandler()
    router = Router([handler], RequestLimits())
    effect_of(router, {**BASE, "attrs": {"text": "x" * LONGEST_PATTERN}})
    effect_of(router, {**BASE, "uuid": "one of a kind"})
    assert not handler._patterns
    for number in range(PATTERNS + 1):
        effect_of(router, {**BASE, "crawlid": f"c{number}"})
    assert len(handler._patterns) == 1


def test_seeds_that_differ_in_what_is_known_of_them_are_alike() -> None:
    """Gives seeds with different validators one shape, and each its own validator."""
    router = Router([handler := ScraperHandler()], RequestLimits())
    for number in range(3):
        fields = {**BASE, "url": f"http://a.example/{number}", "etag": f'"{number}"'}
        seed = effect_of(router, fields)
        assert isinstance(seed, Seed)
        assert decode_entry(seed.entry).headers == {"If-None-Match": f'"{number}"'}
    assert len(handler._patterns) == 1
    assert not handler._around


@pytest.mark.parametrize(
    "url",
    ["http://a.example/path?q=1", "https://b.example/GHI/", "http://c.example/é|", "http://d"],
)
def test_a_plain_seed_is_stored_like_any_entry(url: str) -> None:
    """The short way to a stored seed ends at the same bytes."""
    origin = "demo.incoming-3-123456"
    assert encode_seed(url, origin) == encode_entry(Entry(url=url, origin=origin))


@settings(max_examples=30)
@given(st.lists(st.integers(0, 3), min_size=2, max_size=6))
def test_records_of_a_firing_are_known_by_the_first(numbers: list[int]) -> None:
    """Recognizes records of a firing by the first, and keeps the number of each."""
    router = fresh()
    for number in [*numbers, *numbers]:
        occasion = {"schedule": "s", "at": 1_700_000_000, "n": number}
        told = {"occasion": occasion} if number else {}
        fields = {"url": f"http://a.example/{number}", **told, "appid": "app", "crawlid": "one"}
        raw = json.dumps(fields, separators=(",", ":")).encode()
        record = Record("demo.incoming", 2, 40, 1_700_000_000_000, None, raw)
        handler, request = router.route(raw)
        seed = asyncio.run(handler.handle(request, record))
        assert isinstance(seed, Seed)
        assert seed.occasion == (Occasion(**occasion) if number else None)  # type: ignore[arg-type]


def test_an_occasion_is_looked_for_in_one_place_only() -> None:
    """A key that stands elsewhere, or twice, is read as JSON says: the last counts."""
    router = fresh()
    at = b'"schedule":"s","at":1700000000'
    first = b'{"url":"http://a.example/1","occasion":{%b,"n":1},"appid":"app","crawlid":"one"' % at
    twice = first + b',"occasion":{%b,"n":2}}' % at
    for raw, number in ((first + b"}", 1), (twice, 2), (first + b"}", 1), (twice, 2)):
        record = Record("demo.incoming", 2, 40, 1_700_000_000_000, None, raw)
        handler, request = router.route(raw)
        seed = asyncio.run(handler.handle(request, record))
        assert isinstance(seed, Seed)
        assert seed.occasion == Occasion("s", 1_700_000_000, number)
