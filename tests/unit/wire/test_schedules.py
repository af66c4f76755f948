"""Schedules of seeds in files: which files a request may name, and what they hold."""

from __future__ import annotations

from typing import Any

import pytest

from crawlstream.errors import InvalidRequest
from crawlstream.model.recurring.seed_files import place_of
from crawlstream.model.request import CrawlRequest, RequestLimits, ScheduleRequest
from crawlstream.wire.request_tables import read_seeds
from crawlstream.wire.requests import decode
from crawlstream.wire.schedules import decode as decode_kept
from crawlstream.wire.schedules import definition, encode, encode_request, encode_seeds
from support.sample_requests import raw

STORES = ("file:///srv/seeds", "s3://seeds/of/us/")
FROM = "file:///srv/seeds/news.txt"
SCHEDULE: dict[str, Any] = {
    "uuid": "u",
    "appid": "app",
    "schedule": "news",
    "cron": "0 * * * *",
    "crawl": {"crawlid": "news"},
}


def problems(stores: tuple[str, ...] | None = STORES, **fields: Any) -> list[str]:
    """Errors of a schedule."""
    try:
        decode(raw(SCHEDULE, **fields), limits=RequestLimits(seed_stores=stores))
    except InvalidRequest as error:
        return error.problems
    return []


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("file:///srv/seeds/a/b.txt", (STORES[0], "a/b.txt")),
        ("s3://seeds/of/us/ä 1.csv", (STORES[1], "ä 1.csv")),
        ("file:///srv/seeds/..a/.b", (STORES[0], "..a/.b")),
        *(
            (url, None)
            for url in (
                "file:///srv/seeds",
                "file:///srv/seeds/",
                "file:///srv/seedsmore/a.txt",
                "file:///srv/seeds/../a.txt",
                "file:///srv/seeds/a/../../a.txt",
                "file:///srv/seeds/a/..",
                "file:///srv/seeds/./a.txt",
                "file:///srv/seeds//etc/passwd",
                "file:///srv/seeds/a\\..\\b.txt",
                "file:///srv/seeds/a.txt?version=1",
                "file:///srv/seeds/a.txt#1",
                "file:///srv/seeds/*.txt",
                "file:///srv/seeds/a\n.txt",
                "/srv/seeds/a.txt",
                "simplecache::file:///srv/seeds/a.txt",
                "s3://seeds/of/a.txt",
                "http://127.0.0.1/a.txt",
            )
        ),
    ],
)
def test_only_files_below_a_folder_of_the_operator_may_be_named(
    url: str, place: tuple[str, str] | None
) -> None:
    """Allows only files below the operator's folders, and none without folders."""
    assert place_of(url, STORES) == place
    assert place_of(url, ()) is None
    allowed = problems(seeds_from=f"{url}.txt" if place else url) == []
    assert allowed == (place is not None)


def test_a_schedule_names_seeds_or_a_file() -> None:
    """It has one of both; only the spelling of the file is checked here."""
    assert problems(seeds_from=FROM) == []
    assert problems(None, seeds_from="s3://elsewhere/a.csv") == []
    assert problems() == ["$.seeds: is required by `set`"]
    both = problems(seeds=["http://a.com/"], seeds_from=FROM)
    assert both == ["$.seeds_from: must not be given together with `seeds`"]
    assert problems(seeds_from="file:///srv/seeds/a.xlsx") == [
        "$.seeds_from: must end in .txt, .jsonl, .csv"
    ]
    (refused,) = problems((), seeds_from=FROM)
    assert "CRAWLSTREAM_SEED_STORES" in refused
    (refused,) = problems(seeds_from=FROM, crawl={"crawlid": "news", "maxdepth": -1})
    assert "maxdepth" in refused


def test_what_is_kept_of_it_can_be_set_again() -> None:
    """Returns a schedule that can be set again, in either shape."""
    for seeds in ({"seeds_from": FROM}, {"seeds": ["http://a.com/", {"url": "http://b.com/"}]}):
        request = decode(raw(SCHEDULE, **seeds), limits=RequestLimits(seed_stores=STORES))
        assert isinstance(request, ScheduleRequest)
        assert request.schedule is not None
        assert decode_kept(encode(request.schedule)) == request.schedule
        shown: dict[str, Any] = {**definition(request.schedule)}
        assert problems(**shown) == []
        again = decode(encode_request(request), limits=RequestLimits(seed_stores=STORES))
        assert again == request


def test_files_hold_urls_objects_or_a_table() -> None:
    """Reads URLs, objects or a table by the name of the file, and skips empty lines."""
    urls = b"\xef\xbb\xbfhttp://a.com/\r\n\n# not this\n  http://b.com/ \n"
    assert list(read_seeds("a.txt", urls)) == [{"url": "http://a.com/"}, {"url": "http://b.com/"}]
    objects = b'{"url": "http://a.com/", "priority": 70}\n\n{"url": "http://b.com/"}'
    assert list(read_seeds("a.jsonl", objects)) == [
        {"url": "http://a.com/", "priority": 70},
        {"url": "http://b.com/"},
    ]
    table = b'url,priority,allowed_domains\nhttp://a.com/,70,"a.com b.com"\nhttp://b.com/,,\n'
    assert list(read_seeds("a.csv", table)) == [
        {"url": "http://a.com/", "priority": 70, "allowed_domains": ["a.com", "b.com"]},
        {"url": "http://b.com/"},
    ]
    assert list(read_seeds("a.txt", b"")) == []


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("a.txt", b"http://a.com/\n\xff", "line 2: not UTF-8"),
        ("a.jsonl", b'{"url": "http://a.com/"}\n\n{', "line 3: not JSON"),
        ("a.jsonl", b"[" * 100_000, "line 1: not JSON"),
        ("a.jsonl", b'"http://a.com/"', "line 1: not a JSON object"),
        ("a.jsonl", b'{"priority": 1}', "line 1: required field 'url' is missing"),
        ("a.jsonl", b'{"url": "u", "appid": "x"}', "line 1: appid: a seed cannot set it"),
        ("a.jsonl", b'{"url": "u", "occasion": {}}', "line 1: occasion: a seed cannot set it"),
        ("a.csv", b"url,crawlid\nhttp://a.com/,x", "line 2: crawlid: a seed cannot set it"),
        ("a.csv", b"url\nhttp://a.com/,x", "line 2: the row has more cells than the header"),
        ("a.csv", b"address\nhttp://a.com/", "line 2: required field 'url' is missing"),
    ],
)
def test_a_line_that_is_no_seed_is_named(name: str, data: bytes, problem: str) -> None:
    """Names a wrong line and its fault; a file feeds its schedule's crawl only."""
    with pytest.raises(InvalidRequest) as refused:
        list(read_seeds(name, data))
    assert refused.value.problems == [problem]


def scoped(crawl: dict[str, Any], seed: dict[str, Any] | None = None, **fields: Any) -> Any:
    """Return the fields of a firing's first seed that limit which links are followed."""
    seeds = [{"url": "http://www.a.com/docs/x", **(seed or {})}]
    told = raw(SCHEDULE, seeds=seeds, crawl={"crawlid": "news", **crawl}, **fields)
    request = decode(told, limits=RequestLimits())
    assert isinstance(request, ScheduleRequest)
    assert request.schedule is not None
    (record,) = encode_seeds(request.schedule, 0, request.schedule.seeds)
    made = decode(record, limits=RequestLimits())
    assert isinstance(made, CrawlRequest)
    return made.allowed_domains, made.allow_regex


@pytest.mark.parametrize(
    ("crawl", "fields", "domains", "expressions"),
    [
        ({"maxdepth": 2}, {}, ("www.a.com",), None),
        ({"maxdepth": 2}, {"scope": "domain"}, ("a.com",), None),
        ({"maxdepth": 2}, {"scope": "prefix"}, None, (r"^https?://www\.a\.com/docs/",)),
        ({"maxdepth": 2}, {"scope": "any"}, None, None),
        ({"maxdepth": 2, "allowed_domains": ["b.com"]}, {}, ("b.com",), None),
        (
            {"maxdepth": 2, "allowed_domains": ["b.com"]},
            {"scope": "host"},
            ("www.a.com", "b.com"),
            None,
        ),
        ({"maxdepth": 2, "allow_regex": ["/docs/"]}, {}, None, ("/docs/",)),
        ({"maxdepth": 2}, {"seed": {"allowed_domains": ["c.com"]}}, ("c.com",), None),
        ({"maxdepth": 2}, {"seed": {"maxdepth": 0}}, None, None),
        ({}, {}, None, None),
    ],
)
def test_a_schedule_stays_where_its_seeds_are(
    crawl: dict[str, Any], fields: dict[str, Any], domains: Any, expressions: Any
) -> None:
    """Links lead to their hosts, as in a crawl by command, unless schedule or seed says another."""
    assert scoped(crawl, **fields) == (domains, expressions)


def test_a_schedule_that_was_stored_before_follows_the_links_that_it_did() -> None:
    """It follows all; a schedule that is set now keeps its scope, a contradiction is refused."""
    stored = encode(decode_kept(raw(SCHEDULE, seeds=["http://a.com/"])))
    assert decode_kept(stored).scope == "any"
    shown = decode(raw(SCHEDULE, seeds=["http://a.com/"]), limits=RequestLimits())
    assert isinstance(shown, ScheduleRequest)
    assert shown.schedule is not None
    assert definition(shown.schedule)["scope"] == "host"
    assert decode_kept(encode(shown.schedule)).scope == "host"
    crawl = {"crawlid": "news", "allow_regex": ["/docs/"]}
    (refused,) = problems(seeds=["http://a.com/"], crawl=crawl, scope="prefix")
    assert refused == "$.scope: prefix cannot be combined with `allow_regex`"
