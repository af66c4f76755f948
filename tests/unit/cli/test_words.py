"""Sentences of the cluster, as commands repeat them."""

from __future__ import annotations

import pytest

from crawlstream.errors import InvalidRequest
from crawlstream.wire import requests
from crawlstream_cli.common.words import counted, in_words


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        (
            b'{"url": "http://a/", "appid": "nc", "crawlid": "1"}',
            "appid: must have 3-40 characters (got 2)",
        ),
        (
            b'{"url": "http://a/", "appid": "app", "crawlid": "1", "priority": 0}',
            "priority: must be from 1 to 100 (got 0)",
        ),
        (b'{"url": "http://a/", "appid": "app"}', "required field 'crawlid' is missing"),
    ],
)
def test_a_reason_is_told_without_its_path(record: bytes, sentence: str) -> None:
    """The field, what it must be, and what was given."""
    with pytest.raises(InvalidRequest) as refused:
        requests.decode(record)
    assert list(map(in_words, refused.value.problems)) == [sentence]


def test_one_is_not_many() -> None:
    """Large numbers are grouped."""
    assert (counted(1, "page"), counted(1234, "page")) == ("1 page", "1,234 pages")
