"""Every page has a record that clients of the predecessor can read, whatever the page holds."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.result import AsSent, CrawlResult, ResultLimits
from crawlstream.wire.results import encode_result, timestamp

quick = settings(max_examples=50)

PREDECESSOR = {
    "appid": str,
    "attrs": dict,
    "body": str,
    "crawlid": str,
    "encoding": str,
    "links": list,
    "request_headers": dict,
    "response_headers": dict,
    "response_url": str,
    "status_code": int,
    "status_msg": str,
    "timestamp": str,
    "url": str,
}
"""Keys and types of a record of the predecessor."""

ALWAYS = {
    "id": str,
    "spiderid": str,
    "run": int,
    "depth": int,
    "seed_url": str,
    "attempt": int,
    "latency_ms": int,
    "ip": str,
    "body_size": int,
    "digest": str,
}
"""Other fields of every record."""

PAGE = CrawlResult(
    id="0" * 32,
    crawl=CrawlKey("link", "app", "job"),
    run=1,
    attrs={"k": 1},
    url="http://127.0.0.7:8080/a",
    response_url="http://127.0.0.7:8080/a",
    status_code=200,
    request_headers={b"Accept-Language": [b"en"]},
    response_headers={b"Content-Type": [b"text/html; charset=utf-8"], b"X-Two": [b"1", b"2"]},
    body='<p>é / "q"</p>'.encode(),
    encoding="utf-8",
    links=[("http://127.0.0.7:8080/b", "Bee")],
    timestamp=1795251154.786542,
    depth=0,
    seed_url="http://127.0.0.7:8080/a",
    attempt=1,
    latency_ms=12,
    ip="127.0.0.7",
)


def record_of(
    page: CrawlResult, limits: ResultLimits | None = None, **changes: Any
) -> dict[str, Any]:
    """The record of a page with some fields changed."""
    encoded = encode_result(replace(page, **changes), limits or ResultLimits())
    record = orjson.loads(encoded)
    assert isinstance(record, dict)
    return record


def types_of(record: Mapping[str, object]) -> dict[str, type]:
    """The type of each field."""
    return {name: type(value) for name, value in record.items()}


def test_a_page_has_the_keys_and_types_that_clients_know() -> None:
    """Keys are added, never removed or retyped; what does not apply is absent."""
    assert types_of(record_of(PAGE)) == PREDECESSOR | ALWAYS
    record = record_of(PAGE)
    assert record["body"] == '<p>é / "q"</p>'
    assert record["status_msg"] == "OK"
    assert record["links"] == [{"url": "http://127.0.0.7:8080/b", "text": "Bee"}]
    assert record["request_headers"] == {"Accept-Language": ["en"]}
    assert record["response_headers"]["X-Two"] == ["1", "2"]
    assert record["timestamp"] == "2026-11-21T08:52:34.786542"
    assert record["body_size"] == 15


def test_what_applies_to_some_pages_is_there_on_those() -> None:
    """A child names its parent, a redirect's target its chain, and so on."""
    record = record_of(
        PAGE,
        attrs=None,
        parent_url="http://127.0.0.7:8080/",
        redirect_urls=("http://127.0.0.7:8080/old",),
        uuid="u-1",
        recovered=True,
        incomplete=True,
        ip=None,
    )
    assert record["parent_url"] == "http://127.0.0.7:8080/"
    assert record["redirect_urls"] == ["http://127.0.0.7:8080/old"]
    assert (record["uuid"], record["recovered"], record["incomplete"]) == ("u-1", True, True)
    assert record["attrs"] is None
    assert record["ip"] is None


def test_a_timestamp_always_has_its_microseconds() -> None:
    """Writes microseconds of a timestamp, also zero ones, in naive UTC."""
    assert timestamp(0) == "1970-01-01T00:00:00.000000"


@pytest.mark.parametrize(
    ("body", "encoding", "text"),
    [
        ("ένα δύο".encode("iso8859-7"), "iso8859-7", "ένα δύο"),
        (b"\xe9", "cp1252", "é"),
        (b"\xef\xbb\xbfx", "utf-8", "\ufeffx"),
        ("漢字".encode("gb18030"), "gb18030", "漢字"),
        ("hi".encode("utf-16"), "utf-16", "hi"),
        (b"a\x00b", "utf-8", "a\x00b"),
        (b"", "utf-8", ""),
    ],
)
def test_text_is_text_in_the_charset_that_was_detected(
    body: bytes, encoding: str, text: str
) -> None:
    """Decoded strictly, byte order marks and NULs kept as the predecessor kept them."""
    record = record_of(PAGE, body=body, encoding=encoding)
    assert record["body"] == text
    assert record["encoding"] == encoding
    assert "body_encoding" not in record
    assert record["body_size"] == len(body)


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (b"\x89PNG\r\n\xff", None),
        (b"caf\xe9", "utf-8"),
        (b"\xed\xa0\x80", "utf-8"),
        (b"x", "no-such-charset"),
        (b"x\x00", "a\x00b"),
        (b"eJwDAAAAAAE=", "base64"),
        (b"xn--", "punycode"),
        (b"\\ud800", "unicode_escape"),
        (b"+2AA-", "utf-7"),
        (b"x", "undefined"),
        (b"a..b", "idna"),
    ],
)
def test_what_is_not_text_is_base64(body: bytes, encoding: str | None) -> None:
    """Binary pages, wrong charsets and codecs that are none arrive whole, and marked."""
    record = record_of(PAGE, body=body, encoding=encoding)
    assert b64decode(record["body"]) == body
    assert record["body_encoding"] == "base64"
    assert record["encoding"] == (encoding or "binary")


def test_base64_can_be_asked_for() -> None:
    """KAFKA_BASE_64_ENCODE sends the raw bytes of text too."""
    record = record_of(PAGE, ResultLimits(base64_always=True))
    assert b64decode(record["body"]) == PAGE.body
    assert record["body_encoding"] == "base64"
    assert record["encoding"] == "utf-8"


@pytest.mark.parametrize(
    ("char", "encoding"), [("é", "utf-8"), ("漢", "utf-8"), ("😀", "utf-16"), ("漢", "gb18030")]
)
@pytest.mark.parametrize("limit", [100, 101, 102, 103])
def test_a_long_body_is_cut_between_characters(char: str, encoding: str, limit: int) -> None:
    """A cut through the middle of a character does not turn text into base64."""
    body = (char * 60).encode(encoding)
    record = record_of(PAGE, ResultLimits(max_body_bytes=limit), body=body, encoding=encoding)
    assert set(record["body"]) == {char}
    assert record["body_truncated"] is True
    assert record["body_size"] == len(body)
    assert limit - 4 <= len(record["body"].encode(encoding)) <= limit


def test_a_cut_does_not_hide_wrong_bytes() -> None:
    """Forgives wrong bytes only at the end of a cut body."""
    record = record_of(
        PAGE, ResultLimits(max_body_bytes=100), body=b"\xff" + b"x" * 200, encoding="utf-8"
    )
    assert record["body_encoding"] == "base64"
    assert len(b64decode(record["body"])) == 100


@pytest.mark.parametrize(
    "changes",
    [
        {"body": b"\x00" * 50_000},
        {"body": b"\x00" * 10_000 + b"x" * 60_000},
        {"body": b"x" * 60_000 + b"\x00" * 10_000},
        {"body": b"\xff" * 50_000},
        {"body": b"", "links": [("http://a.example/" + "x" * 1000, "")] * 100},
        {"body": b"x" * 50_000, "links": [("http://a.example/" + "x" * 1000, "")] * 100},
        {"response_headers": {b"X": [b"y" * 1000] * 100}},
        {"response_headers": {b"X": [b"y"] * 5000}, "as_sent": AsSent(b"X: y\r\n" * 5000)},
        {"response_headers": {}, "as_sent": AsSent(b"Connection: \1\r\n" * 5000)},
        {"body": b"x" * 50_000, "screenshot": {"width": 1}, "screenshot_body": b"\0" * 50_000},
    ],
)
def test_a_record_always_fits_its_topic(changes: Mapping[str, Any]) -> None:
    """A record that is too large is cut until it fits, and says so; identity and place stay."""
    limit = 20_000
    encoded = encode_result(replace(PAGE, **changes), ResultLimits(max_record_bytes=limit))
    assert len(encoded) <= limit
    record = orjson.loads(encoded)
    marks = {"body_truncated", "links_truncated", "headers_truncated"}
    assert any(record.get(mark) is True for mark in marks)
    assert record["id"] == PAGE.id
    assert record["body_size"] == len(changes.get("body", PAGE.body))
    if "body_encoding" in record:
        b64decode(record["body"], validate=True)


def test_the_coded_body_gives_way_before_the_body() -> None:
    """A reader gets the page in any case, and sees that the other form was left out."""
    sent = AsSent(b"HTTP/1.1 200 OK\r\n", b"\0" * 40_000)
    for limits in (ResultLimits(max_record_bytes=20_000), ResultLimits(max_body_bytes=10_000)):
        record = orjson.loads(encode_result(replace(PAGE, as_sent=sent), limits))
        assert record["as_sent"] == {"head": "HTTP/1.1 200 OK\r\n", "body_left_out": True}
        assert "body_truncated" not in record


def test_the_screenshot_gives_way_before_the_body() -> None:
    """Leaves out a screenshot that does not fit into the record, and keeps its size and digest."""
    result = replace(PAGE, screenshot={"width": 1}, screenshot_body=b"\0" * 40_000)
    record = orjson.loads(encode_result(result, ResultLimits(max_record_bytes=20_000)))
    assert record["screenshot"] == {"width": 1, "error": "no_room"}
    assert "body_truncated" not in record
    assert "screenshot_body" not in record


def test_a_little_too_large_is_cut_a_little() -> None:
    """No more is thrown away than an eighth a round."""
    limits = ResultLimits(max_record_bytes=100_000)
    record = record_of(PAGE, limits, body=b"x" * 101_000)
    assert len(record["body"]) > 85_000


def test_many_links_give_way_before_the_body() -> None:
    """A page keeps its body, whatever it leads to; few links stay where the body is cut."""
    limits = ResultLimits(max_record_bytes=100_000)
    many = [(f"http://a.example/{number}", "x" * 100) for number in range(10_000)]
    record = record_of(PAGE, limits, body=b"b" * 50_000, encoding="utf-8", links=many)
    assert record["body"] == "b" * 50_000
    assert record["links_truncated"] is True
    assert 0 < len(record["links"]) < 10_000
    record = record_of(PAGE, limits, body=b"b" * 500_000, encoding="utf-8", links=many[:100])
    assert len(record["links"]) == 100
    assert "links_truncated" not in record
    assert record["body_truncated"] is True


def test_headers_are_lists_of_text_whatever_their_bytes() -> None:
    """UTF-8 where they are UTF-8, else Latin-1: never a failure."""
    record = record_of(PAGE, response_headers={b"X-\xe9": [b"caf\xe9", "é".encode()]})
    assert record["response_headers"] == {"X-é": ["café", "é"]}


def test_attrs_come_back_as_they_were_asked() -> None:
    """Numbers of any length included."""
    attrs = {"n": 10**40 + 1, "f": 0.1, "deep": [{"k": None}]}
    assert b"10000000000000000000000000000000000000001" in encode_result(replace(PAGE, attrs=attrs))
    assert record_of(PAGE, attrs={"deep": [{"k": None}]})["attrs"] == {"deep": [{"k": None}]}


@quick
@given(
    body=st.binary(max_size=300),
    encoding=st.none()
    | st.sampled_from(["utf-8", "cp1252", "utf-16", "utf-7", "shift_jis", "iso2022_jp", "hz"]),
    limit=st.integers(0, 300),
    raw=st.binary(max_size=20),
    text=st.text(st.characters() | st.just("\ud800"), max_size=20),
)
def test_no_page_is_without_a_record(
    body: bytes, encoding: str | None, limit: int, raw: bytes, text: str
) -> None:
    """Any bytes, any text, lone surrogates and NaN: the record is JSON and has its keys."""
    record = record_of(
        PAGE,
        ResultLimits(max_body_bytes=limit),
        body=body,
        encoding=encoding,
        response_headers={raw: [raw]},
        links=[(text, text)],
        url=text,
        attrs={text: [text, float("nan"), raw, object()]},
    )
    assert types_of(record).items() >= (PREDECESSOR | ALWAYS).items()
    assert record["body_size"] == len(body)
    if "body_encoding" in record:
        assert b64decode(record["body"]) == body[:limit]
    elif "body_truncated" not in record and encoding not in {"utf-16", None}:
        assert record["body"] == body.decode(encoding or "")
