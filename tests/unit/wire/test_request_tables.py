"""Tables of crawl requests: one reading, whichever door they come in by."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from crawlstream.errors import InvalidRequest
from crawlstream.model.request import RequestLimits
from crawlstream.wire.request_tables import read_table
from rest_service.http.envelope import RequestRefused
from rest_service.topics.seeds import CSV, read_seeds


def rows(text: str | bytes) -> list[Mapping[str, Any]]:
    """The objects of a table."""
    return list(read_table(io.BytesIO(text.encode() if isinstance(text, str) else text)))


def cell(name: str, text: str) -> object:
    """Return the value of a cell."""
    table = io.StringIO()
    csv.writer(table).writerows([["url", name], ["u", text]])
    (row,) = rows(table.getvalue())
    return row[name]


def test_a_table_is_read_as_crawl_requests() -> None:
    """The first row names the fields; numbers and objects are JSON, text stays text."""
    text = (
        "\ufeffurl,crawlid,maxdepth,attrs,cookie\r\n"
        'http://a.example/?x=1,007,2,"{""a"": 12345678901234567890123}",\r\n'
        '"http://b.example/a,b",8,deep,,k=v\r\n'
        "\r\n"
        'http://c.example/,"two\nlines"\r\n'
    )
    assert rows(text) == [
        {
            "url": "http://a.example/?x=1",
            "crawlid": "007",
            "maxdepth": 2,
            "attrs": {"a": 12345678901234567890123},
        },
        {"url": "http://b.example/a,b", "crawlid": "8", "maxdepth": "deep", "cookie": "k=v"},
        {"url": "http://c.example/", "crawlid": "two\nlines"},
    ]


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ("a.example", ["a.example"]),
        ("a.example  b.example", ["a.example", "b.example"]),
        ('["a.example", "b c"]', ["a.example", "b c"]),
        ("[]", []),
        ("[0-9]+ x", ["[0-9]+", "x"]),
        ("[1]", ["[1]"]),
        ("2024", ["2024"]),
        ("null", None),
    ],
)
def test_a_list_is_json_or_words(text: str, texts: object) -> None:
    """Any other text than a list is read as words, such as an expression that looks like JSON."""
    for name in ("allowed_domains", "allow_regex", "deny_extensions"):
        assert cell(name, text) == texts


def test_priority_rules_are_a_list_of_objects() -> None:
    """A table may have them in a cell, as JSON."""
    assert cell("priorities", '[{"match": "/a b", "add": 10}]') == [{"match": "/a b", "add": 10}]


@pytest.mark.parametrize(
    "name", ["appid", "useragent", "cookie", "body", "uuid", "method", "no_field"]
)
def test_text_stays_text(name: str) -> None:
    """Keeps text as text: an app may be called 123."""
    for text in ("123", "true", "[]", "null"):
        assert cell(name, text) == text


def test_cells_are_taken_as_spreadsheets_write_them() -> None:
    """Truths are in capitals, bodies are whole; the schema refuses other values."""
    for name in ("obey_robots", "render"):
        for text, truth in (("TRUE", True), ("False", False), ("null", None), ("yes", "yes")):
            assert cell(name, text) == truth
    body = "x" * (1 << 20)
    assert cell("body", body) == body


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (b"url,crawlid\nu,1\nu,2,3\n", "line 3: the row has more cells than the header"),
        (b"url,crawlid\nu,1\nu,\xff\n", "line 3: not UTF-8"),
        (b"url,url\nu,v\n", "line 1: column url occurs twice"),
        (b'url,crawlid\n"u"x,1\n', "line 2: ',' expected"),
        (b'url,crawlid\nu,"1\nu,2\n', "line 3: unexpected end of data"),
        (b"url\ru\r", "line 1: new-line character"),
        (b"url,body\nu," + b"x" * (1 << 22), "line 2: field larger than field limit (2097152)"),
    ],
)
def test_what_is_no_table_is_refused_by_its_line(table: bytes, problem: str) -> None:
    """Refuses a wrong table by its line; half a quotation swallows no rows."""
    with pytest.raises(InvalidRequest) as refused:
        rows(table)
    assert str(refused.value).startswith(problem)
    with pytest.raises(RequestRefused) as answered:
        read_seeds(table, CSV, RequestLimits())
    assert str(answered.value.details["cause"]) == str(refused.value)


def test_a_table_over_http_is_fed_as_it_is_read() -> None:
    """Passes on equal objects from HTTP and command."""
    table = b'url,appid,crawlid,deny_regex\nhttp://a.example,app,1,"[""x""]"\nb.example,app,1,x y\n'
    seeds = read_seeds(table, CSV, RequestLimits())
    assert [orjson.loads(seed.raw) for seed in seeds] == rows(table.decode())
    assert [seed.request.deny_regex for seed in seeds] == [("x",), ("x", "y")]
