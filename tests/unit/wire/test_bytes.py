"""Any bytes are a request, or are refused with a reason; nothing else can happen."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlstream.errors import InvalidRequest
from crawlstream.model.request import CrawlRequest, Refusal, RequestLimits
from crawlstream.wire.requests import KINDS, decode, readable_ids
from support.sample_requests import ACTION, CRAWL, STATS, ZOOKEEPER, raw, refusal

quick = settings(max_examples=50)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (None, "empty"),
        (b"", "empty"),
        (b" ", "not_json"),
        (b"hello", "not_json"),
        (b"{", "not_json"),
        (b"{'a': 1}", "not_json"),
        (b'{"a": 1,}', "not_json"),
        (b'{"a": 1} {"b": 2}', "not_json"),
        (b'{"a": "\x01"}', "not_json"),
        (b'{"a": 01}', "not_json"),
        (b"\xff\xfe{\x00}\x00", "not_utf8"),
        (b'{"a": "\xe9"}', "not_utf8"),
        (b'{"a": "\xed\xa0\x80"}', "not_utf8"),
        (b'{"a": "\xc0\x80"}', "not_utf8"),
        (b'{"a": "\\ud800"}', "bad_text"),
        (b'{"\\udc00": 1}', "bad_text"),
        (b'{"a": NaN}', "bad_number"),
        (b'{"a": -Infinity}', "bad_number"),
        (b'{"a": 1e400}', "bad_number"),
        (b'{"a": -1e400}', "bad_number"),
        (b'{"a": ' + b"9" * 5000 + b"}", "bad_number"),
        (b"[]", "not_an_object"),
        (b"null", "not_an_object"),
        (b'"text"', "not_an_object"),
        (b"5", "not_an_object"),
        (b"[" * 100_000, "too_deep"),
        (b'{"a":' * 100_000, "too_deep"),
        (b'{"attrs":' + b"[" * 128 + b"]" * 128 + b"}", "too_deep"),
        (b"{}" + b" " * 2 * 1024 * 1024, "too_large"),
        (b"{}", "bad_request"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_bytes_that_are_no_request_have_their_reason(record: bytes | None, reason: str) -> None:
    """Each way of being no request has one code, and one sentence about it."""
    error = refusal(record)
    assert error.reason == reason
    if error.reason != "bad_request":
        assert error.problems[0].startswith(f"$: {Refusal(reason).sentence}")


@quick
@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(record: bytes) -> None:
    """Decoding ends with a request or with its refusal, whatever arrives."""
    for value in (record, b'{"appid":' + record, b"{" + record + b"}"):
        try:
            decode(value)
        except InvalidRequest as error:
            assert Refusal(error.reason)  # noqa: PT017
        assert isinstance(readable_ids(value), dict)


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters() | st.just("\ud800"), max_size=10)
    | st.sampled_from(["info", "link", "all", "GET", "http://a.example", "(", "domain-update"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
_NAMES = sorted({name for kind in KINDS for name in kind.schema.properties})
_OBJECTS = st.dictionaries(st.sampled_from(_NAMES) | st.text(max_size=5), _VALUES, max_size=6)


@quick
@given(st.sampled_from([CRAWL, ACTION, STATS, ZOOKEEPER, {}]), _OBJECTS)
def test_no_object_raises_anything_else(base: Mapping[str, Any], more: Mapping[str, Any]) -> None:
    """Known fields with any values at all are a request or are refused, with readable ids."""
    record = json.dumps({**base, **more}).encode("utf-8", "surrogatepass")
    try:
        decode(record)
    except InvalidRequest as error:
        assert Refusal(error.reason)  # noqa: PT017
        assert error.problems  # noqa: PT017
    ids = readable_ids(record)
    assert all(len(text) <= 100 for text in ids.values())
    assert orjson.dumps(ids)


def test_a_hundred_levels_and_a_mebibyte_are_accepted() -> None:
    """How deep attrs are, and how large a body is, is the client's own business up to there."""
    deep = b'{"appid":"app","crawlid":"c","url":"a.example","attrs":{"a":' + b"[" * 98
    wide = raw(CRAWL, body="é" * 170_000, attrs={"text": "é" * 5_000, "brackets": "[" * 10_000})
    assert len(wide) > 1_000_000
    for record in (deep + b"]" * 98 + b"}}", wide):
        assert isinstance(decode(record), CrawlRequest)


def test_attrs_have_a_limit_that_an_operator_sets() -> None:
    """64 KiB by default, for every result repeats them; more where the cluster allows it."""
    record = raw(CRAWL, attrs={"text": "a" * 65_536})
    with pytest.raises(InvalidRequest, match="the maximum is 65536"):
        decode(record)
    larger = decode(record, limits=RequestLimits(max_attrs_bytes=100_000))
    assert isinstance(larger, CrawlRequest)


def test_numbers_come_through_whole() -> None:
    """Integers of any length, and the largest floats, are what the client wrote."""
    attrs = {"n": 10**400 + 1, "m": 2**63, "k": -(2**64) - 1, "f": 1.7976931348623157e308}
    request = decode(raw(CRAWL, attrs=attrs))
    assert isinstance(request, CrawlRequest)
    assert request.attrs == attrs


def test_of_two_equal_keys_the_last_counts() -> None:
    """Takes the last of two equal keys, with or without the exact parser."""
    for tail in (b"1", b"1" * 30):
        record = b'{"appid":"app","crawlid":"a","crawlid":"b","url":"a.example","attrs":{"n":%s}}'
        request = decode(record % tail)
        assert isinstance(request, CrawlRequest)
        assert request.crawlid == "b"


def test_a_byte_order_mark_is_skipped() -> None:
    """Files from some editors begin with one."""
    assert decode(b"\xef\xbb\xbf" + raw(CRAWL)) == decode(raw(CRAWL))


@pytest.mark.parametrize(
    "record",
    [
        b'{"a": "' + b'\\"' * 500_000,
        b'{"a": "' + b"\\" * 1_000_001,
        b'"' * 1_000_000,
        b'{"a": [' + b"[]," * 300_000,
        b'{"appid":"app","crawlid":"c","url":"a.example","allow_regex":['
        + b'1,"a",' * 100_000
        + b"1]}",
        b"{" + b",".join(b'"f%d":1' % number for number in range(100_000)) + b"}",
        b'{"appid":"app","crawlid":"c","url":"a.example","attrs":{"n":' + b"9" * 4000 + b"}}",
    ],
    ids=["escapes", "backslashes", "quotes", "flat", "mixed list", "many fields", "digits"],
)
def test_no_megabyte_takes_long(record: bytes) -> None:
    """No record costs more than its length: a client cannot hold up the others."""
    started = time.process_time()
    try:
        decode(record)
    except InvalidRequest as error:
        assert sum(map(len, error.problems)) < 5_000  # noqa: PT017
    assert time.process_time() - started < 2
