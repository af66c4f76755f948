"""Laws of clients that wait for pages: each is answered, with a place where its page is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chaos.laws.good_facts import FED, GOOD, PRIVATE, answer
from crawlstream_chaos.facts.facts import Facts, TopicRecord
from crawlstream_chaos.laws.auditor import audit

URL = "http://127.0.0.1:1/1"
RIGHT = {"action": "page", "id": "id-1", "url": URL, "partition": 0, "offset": 1}
FAILED = {"action": "page", "url": PRIVATE, "reason": "robots"}


def waits(*replies: TopicRecord, is_stopped: bool = False) -> Facts:
    """Facts of a crawl with two clients that wait, and these replies."""
    fed = replace(FED, waiting={"u1": URL, "u2": PRIVATE}, is_stopped=is_stopped)
    return replace(GOOD, fed=[fed], records=[*GOOD.records, *replies])


def reply(uuid: str, **fields: Any) -> TopicRecord:
    """A reply about a page."""
    return answer(uuid, **fields)


def test_a_reply_for_each_client_breaks_no_law() -> None:
    """Accepts a reply for each client, also twice, without an offset, or after a reason."""
    failed = reply("u2", **FAILED)
    twice = [reply("u1", **RIGHT), reply("u1", **RIGHT)]
    unknown = reply("u1", **{**RIGHT, "offset": None})
    again = [reply("u1", action="page", url=URL, reason="expired"), *twice]
    for replies in (twice, [unknown], again):
        assert audit(waits(failed, *replies)) == []


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ([], "no reply about"),
        ([reply("u1", **{**RIGHT, "offset": 2})], "is not at 0-2"),
        ([reply("u1", **{**RIGHT, "id": "id-2", "offset": None})], "is not at 0-None"),
        ([reply("u1", action="page", url=URL, reason="no_result")], "was answered no_result"),
        ([reply("u1", **RIGHT), reply("u9", **RIGHT)], "did not wait"),
    ],
)
def test_a_client_without_its_page_is_found(wrong: list[TopicRecord], what: str) -> None:
    """No reply, one that names another record, one without its page, one with a foreign uuid."""
    (violation,) = audit(waits(reply("u2", **FAILED), *wrong))
    assert violation.law == "clients that wait are answered"
    assert what in violation.what


def test_a_stopped_crawl_answers_without_the_page() -> None:
    """Its pages may be missing, but no client is without a reply."""
    stopped = [reply(uuid, action="page", reason="stopped") for uuid in ("u1", "u2")]
    laws = {violation.law for violation in audit(waits(*stopped, is_stopped=True))}
    assert "clients that wait are answered" not in laws
