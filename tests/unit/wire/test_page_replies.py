"""The reply ``page``: small, whole, and told apart from every other record of its topic."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.event import PageReply, RecordPlace
from crawlstream.wire import replies

CRAWL = CrawlKey("link", "agents", "scrape-20261129T1012-node1-2")
RESULT = PageReply(
    uuid="2611291012-r7k2-9f1c3d0f5c0e2e9a5f7c31d0",
    crawl=CRAWL,
    run=12,
    server_time=1_795_251_152,
    id="3d0f3c5c0e2e9a5f7c31d03d0f3c5c0e",
    url="https://www.example.com/guides/first-steps?lang=en",
    status_code=200,
    mime="text/html",
    body_size=4_194_304,
    digest=f"sha256:{'9f' * 32}",
    place=RecordPlace("0d6f8a4e-5b1c-4b8e-9c57-3f9d2f6f7a10", 3, 812_345_678),
)
FAILED = PageReply(
    uuid="u", crawl=CRAWL, run=1, server_time=1, id="ab", url="http://a/", reason="dns", attempts=4
)
DROPPED = PageReply(uuid="u", crawl=CRAWL, run=1, server_time=1, reason="stopped")


def test_a_reply_names_the_record_in_at_most_600_bytes() -> None:
    """All fields of docs/wire.md, in a record that a reader of all replies can afford."""
    raw = replies.page(RESULT)
    assert len(raw) <= 600
    assert [*json.loads(raw)] == [
        *("action", "uuid", "appid", "crawlid", "spiderid", "run", "id", "url", "status_code"),
        *("mime", "body_size", "digest", "topic_id", "partition", "offset", "server_time"),
    ]


def test_a_failure_has_its_reason_in_place_of_the_place() -> None:
    """Names a reason instead of a place; a page dropped with its run has neither id nor URL."""
    failed = json.loads(replies.page(FAILED))
    assert (failed["reason"], failed["attempts"], failed["id"]) == ("dns", 4, "ab")
    assert failed.keys().isdisjoint({"partition", "offset", "status_code"})
    dropped = json.loads(replies.page(DROPPED))
    assert dropped["reason"] == "stopped"
    assert dropped.keys().isdisjoint({"id", "url", "attempts", "partition"})


@pytest.mark.parametrize(
    "reply",
    [RESULT, replace(RESULT, place=RecordPlace("t", 0, None), mime=None), FAILED, DROPPED],
)
def test_a_reply_reads_back_equal(reply: PageReply) -> None:
    """Reads any reply back equal."""
    assert replies.decode_page(replies.page(reply)) == reply


def _with(**fields: Any) -> bytes:
    told = {**json.loads(replies.page(RESULT)), **fields}
    return json.dumps({name: value for name, value in told.items() if value != "absent"}).encode()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b'"page"',
        b'{"action": "page"}',
        b'{"action": "page", ',
        replies.accepted(CRAWL, uuid="page", run=1, server_time=1),
        _with(action="stop"),
        _with(uuid=1),
        _with(partition="three"),
        _with(offset="absent"),
        _with(topic_id=None),
        _with(reason="dns"),
        _with(partition="absent"),
    ],
)
def test_other_records_are_no_reply_about_a_page(raw: bytes) -> None:
    """Recognizes no other record as a reply, nor one with both place and reason, or neither."""
    assert replies.decode_page(raw) is None
