"""The kinds of request: their fields, defaults, bounds and refusals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import settings

from crawlstream.model.crawl import Budgets, CrawlKey
from crawlstream.model.recurring.schedule import Occasion
from crawlstream.model.request import (
    LATEST,
    ActionRequest,
    CrawlRequest,
    RequestLimits,
    StatsRequest,
    ZookeeperRequest,
)
from crawlstream.model.web.priorities import PriorityRule
from crawlstream.model.web.url_parameters import Parameters
from crawlstream.wire.requests import KINDS, SCHEDULE, SCRAPER, decode, encode, readable_ids
from support.sample_requests import ACTION, CRAWL, STATS, ZOOKEEPER, raw, refusal

quick = settings(max_examples=50)

# The kinds.


def test_the_smallest_crawl_request_has_the_defaults() -> None:
    """Three fields make a crawl request; the rest is as the predecessor had it."""
    request = decode(raw(CRAWL))
    assert request == CrawlRequest(appid="app", crawlid="job", url="http://example.com/x")
    assert isinstance(request, CrawlRequest)
    assert (request.spiderid, request.priority, request.maxdepth) == ("link", 1, 0)
    assert request.crawl == CrawlKey("link", "app", "job")


PLAIN = [kind for kind in KINDS if kind is not SCHEDULE]
"""Kinds whose values have the fields of their schema."""


@pytest.mark.parametrize("kind", PLAIN, ids=lambda kind: kind.name)
def test_the_values_have_the_defaults_of_the_schemas(kind: Any) -> None:
    """An absent field gets the default that the schema documents."""
    cls = {
        "scraper": CrawlRequest,
        "action": ActionRequest,
        "stats": StatsRequest,
        "zookeeper": ZookeeperRequest,
    }[kind.name]
    ours = {field.name: field.default for field in fields(cls)}
    for name, rule in kind.schema.properties.items():
        field = "name" if (kind.name, name) == ("action", "action") else name
        assert field in ours
        if "default" in rule:
            absent = 0 if name == "not_before" else None
            assert ours[field] == (absent if rule["default"] is None else rule["default"])
    assert kind.schema.filled({}).keys() <= kind.schema.properties.keys()


def test_a_crawl_request_carries_every_field() -> None:
    """Lists become tuples, objects stay objects, nothing is lost."""
    same: dict[str, Any] = {
        "spiderid": "wandering",
        "priority": 100,
        "maxdepth": 100,
        "domain_max_pages": 2000,
        "domain_max_bytes": 10**8,
        "domain_max_failed_share": 0.25,
        "max_pages": 10,
        "expires": 2_000_000_000,
        "remember": 86_400,
        "max_seconds": 7_200,
        "max_bytes": 10**10,
        "max_failed_share": 0.5,
        "not_before": 1.5,
        "useragent": "test-agent",
        "cookie": "a=b; c=d",
        "cookies": {"a": "b"},
        "headers": {"X-Token": "t"},
        "method": "GET",
        "body": "grüße",
        "etag": None,
        "last_modified": None,
        "attrs": {"deep": [{"n": 1}]},
        "obey_robots": True,
        "directives": "obey",
        "guard": "watch",
        "score": "inlinks",
        "sitemaps": "also",
        "proxy": "de",
        "tls": None,
        "purse": "news",
        "max_price": "USD 0.005",
        "purpose": "train-ai",
        "redirects": "any",
        "archive": True,
        "requisites": True,
        "render": {"wait_for": "#a"},
        "uuid": "u-1",
        "answer": "accepted",
        "occasion": {"schedule": "nightly", "at": 2_000_000_000, "n": 3},
    }
    lists: dict[str, list[str]] = {
        "allowed_domains": ["example.com", "example.org:8080"],
        "allow_regex": ["a.*"],
        "deny_regex": [r"\d{5}"],
        "deny_extensions": [],
        "drop": ["noarchive", "reserved"],
    }
    tuples: dict[str, Any] = {name: tuple(values) for name, values in lists.items()}
    rules: dict[str, Any] = {}
    rules["priorities"] = [{"match": "/a", "types": ["pdf"], "depth": [1, 2], "add": 200}]
    tuples["priorities"] = (PriorityRule(match="/a", types=("pdf",), depth=(1, 2), add=200),)
    rules["parameters"] = {"keep": ["id"], "drop": ["utm_*", "gclid"]}
    tuples["parameters"] = Parameters(keep=("id",), drop=("utm_*", "gclid"))
    rules["host_budget"], tuples["host_budget"] = [10, 5], (10, 5)
    tuples["occasion"] = Occasion("nightly", 2_000_000_000, 3)
    request = decode(raw(CRAWL, url="Example.com:80/a?b=2&a=1#f", **same, **lists, **rules))
    url = "http://example.com/a?b=2&a=1#f"
    assert request == CrawlRequest(appid="app", crawlid="job", url=url, **{**same, **tuples})
    named = {"appid", "crawlid", "url", *same, *lists, *rules}
    assert named == {f.name for f in fields(CrawlRequest)}


def test_a_seed_without_budgets_says_nothing_of_them() -> None:
    """It leaves those of the crawl as they are; one with a budget sets them all."""
    told: list[dict[str, Any]] = [{"max_seconds": 9}, {"max_bytes": 1}, {"max_failed_share": 0.05}]
    for said in ({}, *told):
        request = decode(raw(CRAWL, **said))
        assert isinstance(request, CrawlRequest)
        assert request.budgets == (Budgets(**said) if said else None)
    request = decode(raw(CRAWL, max_seconds=0, max_bytes=0, max_failed_share=None))
    assert isinstance(request, CrawlRequest)
    assert request.budgets is None


def test_null_is_as_good_as_absent_where_null_is_the_default() -> None:
    """A client may spell out that it wants no limit, no cookie, no attrs."""
    nulls = [name for name, rule in SCRAPER.schema.properties.items() if _default_is_null(rule)]
    assert len(nulls) == 40
    assert decode(raw(CRAWL, **dict.fromkeys(nulls))) == decode(raw(CRAWL))
    zeros = dict.fromkeys(("domain_max_pages", "domain_max_bytes", "max_pages"), 0)
    assert decode(raw(CRAWL, **zeros)) == decode(raw(CRAWL))
    assert decode(raw(ACTION, crawlid=None)) == decode(raw(ACTION))


def _default_is_null(rule: Mapping[str, Any]) -> bool:
    return rule.get("default", rule.get("$ref") == "#/$defs/header" and None) is None


@pytest.mark.parametrize("name", ["priority", "maxdepth", "expires", "spiderid", "method"])
def test_null_is_refused_where_the_default_is_a_value(name: str) -> None:
    """Null does not stand for a number or a name."""
    assert refusal(raw(CRAWL, **{name: None})).reason == "bad_request"


def test_the_other_kinds_are_told_apart_by_their_fields() -> None:
    """All four share one topic; the first schema that fits decides, by rank."""
    assert decode(raw(ACTION)) == ActionRequest(
        name="info", uuid="u", appid="app", spiderid="link", crawlid=None
    )
    assert decode(raw(ACTION, action="stop", crawlid="job")) == ActionRequest(
        name="stop", uuid="u", appid="app", spiderid="link", crawlid="job"
    )
    assert decode(raw(STATS)) == StatsRequest(uuid="u", appid="app", stats="all")
    assert decode(raw(STATS, stats="queue")) == StatsRequest(uuid="u", appid="app", stats="queue")
    assert decode(raw(ZOOKEEPER, hits=60, window=60, scale=0.5)) == ZookeeperRequest(
        uuid="u",
        appid="app",
        action="domain-update",
        domain="example.com",
        hits=60,
        window=60,
        scale=0.5,
    )
    assert isinstance(decode(raw(ZOOKEEPER, hits=-1)), ZookeeperRequest)


@pytest.mark.parametrize(
    "record", [ACTION, {**ACTION, "crawlid": "x", "priority": 5}, STATS, ZOOKEEPER]
)
def test_a_request_in_one_spelling_is_the_same_request(record: Mapping[str, Any]) -> None:
    """Requests that are passed on in the cluster keep the meaning of the client."""
    request = decode(raw(record))
    assert not isinstance(request, CrawlRequest)
    assert decode(encode(request)) == request


# Types and bounds.

REFUSED = [
    (CRAWL, {"appid": "ap"}),
    (CRAWL, {"appid": "a" * 41}),
    (CRAWL, {"appid": 123}),
    (CRAWL, {"crawlid": ""}),
    (CRAWL, {"crawlid": "c" * 41}),
    (CRAWL, {"crawlid": "a\nb"}),
    (CRAWL, {"crawlid": "a\n"}),
    (CRAWL, {"crawlid": "a\x85b"}),
    (CRAWL, {"crawlid": "a\u2028b"}),
    (CRAWL, {"spiderid": "a\x00"}),
    (CRAWL, {"url": None}),
    (CRAWL, {"url": ["http://example.com"]}),
    (CRAWL, {"priority": 0}),
    (CRAWL, {"priority": 101}),
    (CRAWL, {"priority": 5.0}),
    (CRAWL, {"priority": True}),
    (CRAWL, {"priority": "5"}),
    (CRAWL, {"maxdepth": -1}),
    (CRAWL, {"maxdepth": 101}),
    (CRAWL, {"maxdepth": 10**30}),
    (CRAWL, {"domain_max_pages": 2001}),
    (CRAWL, {"domain_max_pages": -1}),
    (CRAWL, {"max_pages": -1}),
    (CRAWL, {"expires": 1.5}),
    (CRAWL, {"expires": "0"}),
    (CRAWL, {"allowed_domains": "example.com"}),
    (CRAWL, {"allowed_domains": ["a", "a"]}),
    (CRAWL, {"allow_regex": [1]}),
    (CRAWL, {"useragent": "ab"}),
    (CRAWL, {"useragent": "a" * 1001}),
    (CRAWL, {"useragent": "abc\r\nX: y"}),
    (CRAWL, {"cookie": "a=b\x00"}),
    (CRAWL, {"attrs": []}),
    (CRAWL, {"attrs": "x"}),
    (CRAWL, {"headers": {"a": 1}}),
    (CRAWL, {"method": "get"}),
    (CRAWL, {"method": "CONNECT"}),
    (CRAWL, {"obey_robots": 1}),
    (CRAWL, {"proxy": ""}),
    (CRAWL, {"proxy": "http://proxy.test:80"}),
    (CRAWL, {"proxy": "a" * 65}),
    (CRAWL, {"proxy": ["de"]}),
    (CRAWL, {"tls": "ssl3"}),
    (CRAWL, {"tls": ["legacy"]}),
    (CRAWL, {"tls": "legacy", "render": True}),
    (CRAWL, {"render": "always"}),
    (CRAWL, {"render": {"auto": "auto"}}),
    (CRAWL, {"max_price": "USD 0.01"}),
    (CRAWL, {"requisites": True}),
    (CRAWL, {"requisites": True, "archive": False}),
    (CRAWL, {"redirects": "none"}),
    (CRAWL, {"directives": "always"}),
    (CRAWL, {"guard": "eager"}),
    (CRAWL, {"sitemaps": "always", "maxdepth": 1}),
    (CRAWL, {"sitemaps": True, "maxdepth": 1}),
    (CRAWL, {"sitemaps": "only"}),
    (CRAWL, {"sitemaps": "also", "maxdepth": 0}),
    (CRAWL, {"drop": []}),
    (CRAWL, {"drop": ["nosnippet"]}),
    (CRAWL, {"drop": ["noindex", "noindex"]}),
    (CRAWL, {"drop": "noindex"}),
    (CRAWL, {"drop": ["reserved"]}),
    (CRAWL, {"drop": ["reserved"], "purpose": None}),
    (CRAWL, {"purpose": "ai-train"}),
    (CRAWL, {"purpose": ""}),
    (CRAWL, {"parameters": {"drop": []}}),
    (CRAWL, {"parameters": {"drop": ["a*b"]}}),
    (CRAWL, {"parameters": {"drop": ["a=1"]}}),
    (CRAWL, {"parameters": {"keep": [f"p{n}" for n in range(65)]}}),
    (CRAWL, {"parameters": ["utm_*"]}),
    (CRAWL, {"priorities": []}),
    (CRAWL, {"priorities": [{"drop": True}] * 33}),
    (CRAWL, {"priorities": [{"depth": [1], "drop": True}]}),
    (CRAWL, {"priorities": [{"match": "", "drop": True}]}),
    (CRAWL, {"redirects": None}),
    (CRAWL, {"uuid": ""}),
    (CRAWL, {"answer": "page"}),
    (CRAWL, {"answer": "page", "uuid": None}),
    (CRAWL, {"answer": "result", "uuid": "u"}),
    (CRAWL, {"answer": None, "uuid": "u"}),
    (CRAWL, {"answer": "page", "uuid": "u", "occasion": {"schedule": "s", "at": 2, "n": 0}}),
    (CRAWL, {"remember": -1}),
    (CRAWL, {"remember": 2_592_001}),
    (CRAWL, {"remember": 1.5}),
    (CRAWL, {"etag": ""}),
    (CRAWL, {"etag": "a" * 1001}),
    (CRAWL, {"etag": '"a"\r\nX: y'}),
    (CRAWL, {"etag": '"a"', "method": "POST"}),
    (CRAWL, {"last_modified": "yesterday"}),
    (CRAWL, {"last_modified": "Sun, 99 Nov 1994 08:49:37 GMT"}),
    (CRAWL, {"last_modified": "Sun, 06 Nov 1994 08:49:37 GMT\r\nX: y"}),
    (CRAWL, {"ts": 1.0}),
    (CRAWL, {"unknown": 1}),
    (ACTION, {"action": "explode"}),
    (ACTION, {"action": "reprioritize", "priority": 0}),
    (ACTION, {"action": "reprioritize", "priority": 101}),
    (ACTION, {"uuid": "u" * 41}),
    (ACTION, {"crawlid": ""}),
    (STATS, {"stats": "everything"}),
    (STATS, {"appid": "ab"}),
    (ZOOKEEPER, {"scale": 1.1}),
    (ZOOKEEPER, {"scale": -0.1}),
    (ZOOKEEPER, {"scale": True}),
    (ZOOKEEPER, {"hits": 1.0}),
    (ZOOKEEPER, {"domain": None}),
    (ZOOKEEPER, {"action": "blacklist"}),
]


@pytest.mark.parametrize(("base", "change"), REFUSED, ids=str)
def test_what_breaks_a_type_or_bound_is_refused(
    base: Mapping[str, Any], change: Mapping[str, Any]
) -> None:
    """The explanation names the field, whichever kind was meant."""
    error = refusal(raw(base, **change))
    assert error.reason == "bad_request"
    assert any(name in problem for name in change for problem in error.problems)


@pytest.mark.parametrize(
    ("record", "kind", "missing"),
    [
        ({"appid": "app", "url": "http://a.example/"}, "crawl", "crawlid"),
        ({"appid": "app", "crawlid": "c", "maxdepth": 1}, "crawl", "url"),
        ({"uuid": "u", "appid": "app", "action": "stop"}, "action", "spiderid"),
        ({"uuid": "u", "appid": "app", "action": "domain-update"}, "zookeeper", "domain"),
        ({"uuid": "u", "stats": "all"}, "stats", "appid"),
        ({}, "crawl", "url"),
    ],
)
def test_the_explanation_is_that_of_the_likeliest_kind(
    record: Mapping[str, Any], kind: str, missing: str
) -> None:
    """Errors are about the kind of request that the client meant to make."""
    problems = refusal(raw(record)).problems
    assert f"$: required field {missing!r} is missing (read as {kind} request)" in problems


def test_ids_may_be_any_printable_text() -> None:
    """Colons, spaces and letters of any script are names too; bounds count characters."""
    request = decode(raw(CRAWL, appid="my app", crawlid="job:" + "ü" * 36, spiderid=""))
    assert isinstance(request, CrawlRequest)
    assert request.crawlid == "job:" + "ü" * 36


def test_what_is_remembered_is_bounded_by_the_operator() -> None:
    """Accepts `remember` up to the operator's setting, and names that beyond."""
    limits = RequestLimits(max_remember=60)
    for told in (60, 0, None):
        assert isinstance(decode(raw(CRAWL, remember=told), limits=limits), CrawlRequest)
    found = refusal(raw(CRAWL, remember=61), limits)
    assert "CRAWLSTREAM_MAX_REMEMBER" in found.problems[0]


def test_the_depth_is_bounded_by_the_operator() -> None:
    """The predecessor's limit of 3 is gone, the operator's holds."""
    limits = RequestLimits(max_depth=3)
    assert isinstance(decode(raw(CRAWL, maxdepth=3), limits=limits), CrawlRequest)
    error = refusal(raw(CRAWL, maxdepth=4), limits)
    assert error.reason == "bad_request"
    assert error.problems == [
        "$.maxdepth: must be at most 3 in this cluster (CRAWLSTREAM_MAX_DEPTH)"
    ]


@pytest.mark.parametrize("value", [10**30, -(10**30), -1])
def test_any_whole_number_is_a_time(value: int) -> None:
    """Far future and past are kept within what every program can hold."""
    request = decode(raw(CRAWL, expires=value, not_before=value))
    assert isinstance(request, CrawlRequest)
    assert abs(request.expires) <= LATEST
    assert (request.expires > 0) == (value > 0)
    assert abs(request.not_before) <= LATEST


# Rules beyond the schema.


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "empty"),
        ("file:///etc/passwd", "not http"),
        ("ftp://example.com/", "not http"),
        ("http://", "no host"),
        ("http://1.2.3.4.5/", "not a valid host"),
        ("http://user:pw@example.com/", "user names"),
        ("http://exa mple.com/", "not a valid host"),
        ("a.example/" + "x" * 3000, "longer"),
    ],
)
def test_a_seed_that_cannot_be_crawled_is_refused(url: str, words: str) -> None:
    """The refusal comes at intake, not as silence later."""
    error = refusal(raw(CRAWL, url=url))
    assert error.reason == "bad_url"
    assert words in error.problems[0]


def test_every_bad_expression_is_named() -> None:
    """Expressions that do not compile, are too long or too many are refused with their place."""
    error = refusal(raw(CRAWL, allow_regex=["ok", "("], deny_regex=["*", "x" * 1001]))
    assert error.reason == "bad_regex"
    assert [problem.split(":")[0] for problem in error.problems] == [
        "$.allow_regex[1]",
        "$.deny_regex[0]",
        "$.deny_regex[1]",
    ]
    assert refusal(raw(CRAWL, deny_regex=list(map(str, range(101))))).reason == "bad_regex"
    for hostile in ("(" * 1000, "(?:a{1,65535}){1,99999999999}", "(?au)x", "(?L)x"):
        assert refusal(raw(CRAWL, deny_regex=[hostile])).reason == "bad_regex"
    assert isinstance(decode(raw(CRAWL, deny_regex=["[[a]", ""])), CrawlRequest)


@pytest.mark.parametrize(
    ("field", "pairs"),
    [
        ("headers", {"Host": "other.example"}),
        ("headers", {"content-length": "5"}),
        ("headers", {"Transfer-Encoding": "chunked"}),
        ("headers", {"Connection": "close"}),
        ("headers", {"Proxy-Authorization": "x"}),
        ("headers", {"X": "a\r\nY: b"}),
        ("headers", {"X": "a\x00"}),
        ("headers", {"X Y": "a"}),
        ("headers", {"": "a"}),
        ("headers", {"X\n": "a"}),
        ("headers", {"X": "a" * 8193}),
        ("headers", {f"X{number}": "a" for number in range(101)}),
        ("cookies", {"a b": "c"}),
        ("cookies", {"a": "b; Path=/"}),
        ("cookies", {"a": "b\n"}),
    ],
    ids=str,
)
def test_headers_that_cannot_be_sent_are_refused(field: str, pairs: Mapping[str, str]) -> None:
    """Refuses headers that end a line or belong to the connection."""
    assert refusal(raw(CRAWL, **{field: pairs})).reason == "bad_header"


def test_readable_ids_are_cut_and_clean() -> None:
    """Makes ids of a refused record printable and short."""
    record = b'{"uuid":"%s","appid":"a\\nb\\ud800","crawlid":5,"x":NaN}' % (b"u" * 500)
    assert refusal(record).reason == "bad_number"
    assert readable_ids(record) == {"uuid": "u" * 100, "appid": "a?b?"}
    assert readable_ids(b"[" * 100_000) == {}
    assert readable_ids(None) == {}
    assert readable_ids(b'{"appid":"caf\xe9","crawlid":"c"}') == {
        "appid": "caf\N{REPLACEMENT CHARACTER}",
        "crawlid": "c",
    }
