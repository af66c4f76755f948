"""Results read back: whatever a page holds comes back, and nothing else passes for one."""

from __future__ import annotations

import encodings.aliases
import hashlib
from contextlib import suppress
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlstream.model.result import AsSent, ResultLimits
from crawlstream.wire.delivered import NotAResult, decode, without_secrets
from crawlstream.wire.results import encode_result
from support.pipelines.results import PAGE, record

quick = settings(max_examples=200)

WINDOWS = {"mbcs", "oem"}
CHARSETS = sorted({*encodings.aliases.aliases.values()} - WINDOWS)

HOSTILE: list[tuple[bytes, bytes, str]] = [
    (b"\xfe\xff\x00a\x00b", b"utf-16 of the other byte order", "utf-16"),
    (b"\xff\xfea\x00b\x00", b"utf-16 of this one", "utf-16"),
    (b"no mark", b"a codec that would add one", "utf-8-sig"),
    (b"\xfaJ", b"two ways to say a character", "cp932"),
    (b"\x1b$B\x1b(Bplain", b"escapes that change nothing", "iso2022_jp"),
    (b"~{~}plain", b"the same in Chinese", "hz"),
]


def changed(**fields: Any) -> bytes:
    """A record with some fields as another program may have written them."""
    value = orjson.loads(record(1)) | fields
    return orjson.dumps({name: value[name] for name in value if value[name] != "absent"})


def test_every_field_comes_back() -> None:
    """Typed fields, and the unknown ones as they were."""
    page = decode(
        changed(shiny="new", uuid="u", parent_url="http://p/", redirect_urls=["http://r/"])
    )
    assert (page.appid, page.crawlid, page.spiderid, page.run) == ("app", "job", "link", 1)
    assert (page.url, page.status_code, page.attrs) == (PAGE.url, 200, {"k": [1, None]})
    assert page.timestamp.timestamp() == PAGE.timestamp
    assert page.body == PAGE.body
    assert page.digest == f"sha256:{hashlib.sha256(PAGE.body).hexdigest()}"
    assert page.links == [("http://127.0.0.7:8080/b", "Bee")]
    assert page.response_headers["X-Two"] == ["1", "2"]
    assert (page.uuid, page.parent_url, page.redirect_urls) == ("u", "http://p/", ["http://r/"])
    assert page.mime == "text/html"
    assert page.extra == {"shiny": "new"}


@pytest.mark.parametrize("case", HOSTILE, ids=lambda case: case[1].decode())
def test_a_body_is_the_page_byte_for_byte(case: tuple[bytes, bytes, str]) -> None:
    """Text that would not encode back to its bytes is base64."""
    body, _, encoding = case
    value = encode_result(replace(PAGE, body=body, encoding=encoding))
    assert decode(value).body == body


@quick
@given(st.binary(max_size=40), st.sampled_from(CHARSETS), st.sampled_from([5, 1 << 20]))
def test_no_charset_changes_a_body(body: bytes, encoding: str, most: int) -> None:
    """Keeps a body in any charset; a cut one is the beginning of the page."""
    value = encode_result(
        replace(PAGE, body=body, encoding=encoding), ResultLimits(max_body_bytes=most)
    )
    page = decode(value)
    assert page.body_size == len(body)
    assert page.digest == f"sha256:{hashlib.sha256(body).hexdigest()}"
    assert body.startswith(page.body)
    assert page.body == body or page.body_truncated


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (None, "the record is empty"),
        (b"", "the record is empty"),
        (b"{", "the record is not JSON"),
        (b"\xff", "the record is not JSON"),
        (b"[" * 100_000, "the record is not JSON"),
        (b"[]", "the record is not a JSON object"),
        (b"{}", r"\$.id: missing"),
        (changed(id="absent"), r"\$.id: missing"),
        (changed(id=""), r"\$.id: expected 1 to 1000 characters"),
        (changed(id=5), r"\$.id: expected text"),
        (
            changed(response_url="file:///a"),
            r"\$.response_url: expected a URL that begins with http",
        ),
        (changed(run="1"), r"\$.run: expected an integer"),
        (changed(run=True), r"\$.run: expected an integer"),
        (changed(run=1 << 63), r"\$.run: expected an integer of 64 bits"),
        (changed(status_code=None), r"\$.status_code: missing"),
        (changed(timestamp="yesterday"), r"\$.timestamp: "),
        (changed(timestamp="0001-01-01T00:00:00+14:00"), r"\$.timestamp: "),
        (changed(timestamp="9999-01-01T00:00:00"), r"\$.timestamp: expected a year"),
        (changed(links=[1]), r"\$.links: expected an object"),
        (changed(links=[{}]), r"\$.links: "),
        (changed(response_headers={"a": "b"}), r"\$.response_headers: expected a list"),
        (changed(attrs=[]), r"\$.attrs: expected an object"),
        (changed(recovered="no"), r"\$.recovered: expected true or false"),
        (changed(body=7), r"\$.body: expected text"),
        (changed(as_sent="HTTP"), r"\$.as_sent: expected an object"),
        (changed(as_sent={}), r"\$.as_sent: expected text"),
        (changed(as_sent={"head": "€"}), r"\$.as_sent: .*latin-1"),
        (changed(as_sent={"head": "", "body": "é"}), r"\$.as_sent: "),
        (changed(body="é", body_encoding="base64"), r"\$.body: is not base64"),
        (changed(screenshot=[]), r"\$.screenshot: expected an object"),
        (changed(screenshot_body="é"), r"\$.screenshot_body: "),
    ],
)
def test_what_is_no_result_is_refused_by_the_field(value: bytes | None, sentence: str) -> None:
    """Refuses other records by the field, in a sentence for operators."""
    with pytest.raises(NotAResult, match=sentence):
        decode(value)


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda each: (
        st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=9), each, max_size=3)
    ),
    max_leaves=6,
)


@quick
@given(st.sampled_from(sorted(orjson.loads(record(1)))), json)
def test_any_value_of_any_field_is_a_page_or_a_sentence(field: str, value: Any) -> None:
    """Reads any value of any field as a page, or refuses it in a sentence."""
    try:
        encoded = orjson.dumps(orjson.loads(record(1)) | {field: value})
    except TypeError:
        return
    with suppress(NotAResult):
        assert decode(encoded).id


@pytest.mark.parametrize("charset", ["\0", "x" * 99, "undefined", "idna", "rot13", "nonsense", "é"])
def test_a_charset_that_is_none_leaves_the_text(charset: str) -> None:
    """Reads a text of unknown charset as UTF-8."""
    assert decode(changed(body="é", encoding=charset)).body == "é".encode()


def test_long_numbers_come_back_exactly() -> None:
    """Clients may have such in attrs; beyond 64 bits elsewhere, a record is not a result."""
    page = decode(record(1, attrs={"n": 10**40}))
    assert page.attrs == {"n": 10**40}
    bare, _ = without_secrets(record(1, attrs={"n": 10**40}), page)
    assert decode(bare).attrs == {"n": 10**40}
    with pytest.raises(NotAResult, match=r"\$.run: expected an integer of 64 bits"):
        decode(record(1, run=10**40))
    deep = b"[" * 1_000 + b"]" * 1_000
    with pytest.raises(NotAResult, match="not JSON: nested too deeply"):
        decode(record(1, attrs={"n": 10**40, "deep": 0}).replace(b'"deep":0', b'"deep":' + deep))


@pytest.mark.parametrize("body", [None, b"", bytes(range(256))])
def test_a_response_as_it_was_sent_comes_back(body: bytes | None) -> None:
    """Any bytes of its head and its body; without its body, it is not there."""
    sent = AsSent(b"HTTP/1.1 200 OK\r\nX: " + bytes(range(128, 256)) + b"\n", body)
    assert decode(record(1, as_sent=sent)).as_sent == sent
    assert decode(record(1)).as_sent is None
    assert decode(changed(as_sent={"head": "", "body_left_out": True})).as_sent is None


def test_a_screenshot_comes_back() -> None:
    """Decodes the picture, and leaves its fields as they are."""
    page = decode(record(1, screenshot={"width": 1}, screenshot_body=b"\x89PNG"))
    assert (page.screenshot, page.screenshot_body) == ({"width": 1}, b"\x89PNG")
    assert (decode(record(1)).screenshot, decode(record(1)).screenshot_body) == (None, None)


def test_secrets_are_left_out_of_responses_as_they_were_sent() -> None:
    """All lines with credentials go, in any spelling; the body and the other lines stay.

    They also go if the body did not fit in the record.
    """
    cookies = b"set-cookie: a=secret;\r\n\tb=secret\r\n", b"Set-Cookie : c=secret\r\n"
    sent = AsSent(b"HTTP/1.1 200 OK\r\n%bX: y\n%b" % cookies, b"z")
    value, page = without_secrets(*(made := record(1, as_sent=sent), decode(made)))
    assert decode(value) == page
    assert page.as_sent == AsSent(b"HTTP/1.1 200 OK\r\nX: y\n", b"z")
    made = encode_result(replace(PAGE, as_sent=sent), ResultLimits(max_body_bytes=0))
    value, _ = without_secrets(made, decode(made))
    assert orjson.loads(value)["as_sent"] == {
        "head": "HTTP/1.1 200 OK\r\nX: y\n",
        "body_left_out": True,
    }
    with pytest.raises(NotAResult, match="as_sent"):
        decode(changed(as_sent={"body_left_out": True}))


def test_secrets_are_left_out_on_request() -> None:
    """Removes what a client or a site authenticates by, and keeps all else."""
    value, page = without_secrets(record(1), decode(record(1)))
    assert decode(value) == page
    assert page.request_headers == {"User-Agent": ["bot"]}
    assert "secret" not in value.decode()
    assert set(page.response_headers) == {"Content-Type", "Content-Encoding", "X-Two"}
    assert without_secrets(value, page) == (value, page)
