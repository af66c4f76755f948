"""Commands of a user: requests are read from any shape, records are shown as requested."""

from __future__ import annotations

import base64
import json

import pytest

from crawlstream.bus.records import Record
from crawlstream.errors import CrawlstreamError
from crawlstream.keys import Topics
from crawlstream_cli.common.cluster_requests import as_record, refusal
from crawlstream_cli.common.seed_check import read_found
from crawlstream_cli.dump import View, render

ONE, TWO = {"url": "http://a/", "appid": "x", "crawlid": "1"}, {"url": "http://b/"}
RECORD = Record("demo.t", 1, 7, 1234, b"id", json.dumps({"url": "u", "body": "aGk="}).encode())


@pytest.mark.parametrize(
    "text",
    [
        f"{json.dumps(ONE)}\n\n{json.dumps(TWO)}\n",
        json.dumps([ONE, TWO]),
        json.dumps([ONE, TWO], indent=2),
        f"[{json.dumps(ONE)}]\n[{json.dumps(TWO)}]",
    ],
    ids=["lines", "array", "indented", "arrays"],
)
def test_requests_are_read_from_lines_and_documents(text: str) -> None:
    """JSON lines, an array, an indented document: all are the same requests in the same order."""
    found = read_found(text.encode().splitlines(keepends=True), is_table=False)
    assert [each.request for each in found] == [ONE, TWO]


@pytest.mark.parametrize(
    ("text", "place", "sentence"),
    [
        ("{}\n{broken\n{}\n", "line 2", "not JSON"),
        ("[1]", "request 1", "not a JSON object"),
        ("{}\n7\n", "line 2", "not a JSON object"),
    ],
)
def test_what_is_no_request_is_named_by_its_place(text: str, place: str, sentence: str) -> None:
    """It alone is named, and records after it are read."""
    found = read_found(text.encode().splitlines(keepends=True), is_table=False)
    (bad,) = (each for each in found if each.request is None)
    assert bad.place == place
    assert bad.problem.startswith(sentence)


def test_what_is_no_json_at_all_is_refused_as_a_whole() -> None:
    """Refuses text that is not JSON as a whole."""
    with pytest.raises(CrawlstreamError, match="neither a JSON document nor one JSON object per"):
        list(read_found([b"{broken\n", b"{}\n"], is_table=False))


def test_requests_of_one_crawl_share_a_key() -> None:
    """A crawl's requests go to one partition, in order; others are spread."""
    records = [as_record(Topics(), one) for one in (ONE, TWO, {"appid": "x", "crawlid": None})]
    assert [record.key for record in records] == [b"x:1", None, None]


@pytest.mark.parametrize(
    ("view", "shown"),
    [
        (View(), '{"url":"u","body":"aGk="}'),
        (View(body=False), '{"url":"u"}'),
        (View(only_body=True), "aGk="),
        (View(only_body=True, decode=True), "hi"),
        (View(pretty=True, body=False), '{\n  "url": "u"\n}'),
    ],
)
def test_records_are_shown_as_asked(view: View, shown: str) -> None:
    """Shows records with and without body, decoded or not, on one line or indented."""
    assert render(RECORD, view) == shown


def test_the_envelope_tells_where_a_record_is() -> None:
    """Shows topic, partition, offset, timestamp and key around the value."""
    shown = json.loads(render(RECORD, View(envelope=True, body=False)))
    assert shown == {
        "topic": "demo.t",
        "partition": 1,
        "offset": 7,
        "timestamp": 1234,
        "key": "id",
        "value": {"url": "u"},
    }


@pytest.mark.parametrize("value", [b"not json", b"\xff\xfe", None, b"[1]", b'"text"'])
def test_any_record_can_be_shown(value: bytes | None) -> None:
    """Continues a dump, whatever bytes are on a topic."""
    for view in (View(), View(envelope=True), View(only_body=True), View(body=False)):
        assert isinstance(render(RECORD._replace(value=value), view), str)


def test_bodies_that_are_no_base64_are_left_as_they_are() -> None:
    """Decoding is tried on what says it is base64, and never at the price of an error."""
    text = json.dumps({"body": "not base64!"}).encode()
    assert render(RECORD._replace(value=text), View(only_body=True, decode=True)) == "not base64!"
    binary = json.dumps({"body": base64.b64encode(b"\x00\xff").decode()}).encode()
    shown = render(RECORD._replace(value=binary), View(only_body=True, decode=True))
    assert shown == "\x00\\xff"


def test_replies_that_refuse_say_why() -> None:
    """Errors of either kind become a sentence; an answer without one is none."""
    assert refusal({"action": "rejected", "errors": ["a", "b"]}) == "a; b"
    assert refusal({"error": "no such crawl"}) == "no such crawl"
    assert refusal({"action": "stop", "total_purged": 0}) is None
