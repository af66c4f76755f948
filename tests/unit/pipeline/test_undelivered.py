"""Undelivered records in a list: which page each was."""

from __future__ import annotations

import pytest

from crawlstream.model.event import Rejection
from pipeline_service.commands.second_chances import _url
from pipeline_service.records.undelivered_records import Undelivered


@pytest.mark.parametrize(
    ("raw", "url"),
    [
        (b'{"url": "http://a.example/", "body": ""}', "http://a.example/"),
        *((raw, "") for raw in (b'{"url": null}', b"{}", b"[1]", b"\xff", b"", None)),
    ],
)
def test_a_record_is_listed_with_the_url_of_its_page(raw: bytes | None, url: str) -> None:
    """A record without one, or of other bytes, has an empty cell."""
    rejection = Rejection(
        reason="stage_timeout", errors=["$: late"], raw=raw, topic="t", partition=2, offset=36
    )
    assert _url(Undelivered("docs", 1, rejection)) == url
