"""Headers of a request that let a site answer without sending the page again."""

from __future__ import annotations

import pytest

from crawlstream.model.recurring.validators import conditions_of, is_http_date

DATE = "Sun, 06 Nov 1994 08:49:37 GMT"


@pytest.mark.parametrize(
    ("etag", "sent"),
    [
        ('"abc"', '"abc"'),
        ('W/"abc"', 'W/"abc"'),
        ("abc", "abc"),
        ('"abc-gzip"', '"abc-gzip", "abc"'),
        ('"abc-br"', '"abc-br", "abc"'),
        ('"abc-zstd"', '"abc-zstd", "abc"'),
        ('"abc--gzip"', '"abc--gzip", "abc"'),
        ('"abc;gzip"', '"abc;gzip", "abc"'),
        ('W/"a-br-gzip"', 'W/"a-br-gzip", W/"a-br"'),
        ("abc-gzip", "abc-gzip, abc"),
        ('"-gzip"', '"-gzip"'),
        ('"gzip-abc"', '"gzip-abc"'),
    ],
)
def test_an_etag_is_asked_for_with_and_without_its_compression(etag: str, sent: str) -> None:
    """Servers that add how they compressed a page compare without that; weak stays weak."""
    assert conditions_of(etag, DATE) == {"If-None-Match": sent}


def test_the_date_is_for_pages_without_an_etag() -> None:
    """It goes out as the site has sent it."""
    assert conditions_of(None, DATE) == {"If-Modified-Since": DATE}
    assert conditions_of(None, None) == {}


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (DATE, True),
        ("Sunday, 06-Nov-94 08:49:37 GMT", True),
        ("Sun Nov  6 08:49:37 1994", True),
        ("Sun, 06 Nov 1994", False),
        ("Sun, 99 Nov 1994 08:49:37 GMT", False),
        ("1994-11-06T08:49:37Z", False),
        ("yesterday", False),
        ("", False),
        (f"{DATE}\r\nX: y", False),
    ],
)
def test_a_date_is_as_http_has_it(text: str, *, is_one: bool) -> None:
    """Accepts a date in one of HTTP's three forms."""
    assert is_http_date(text) is is_one
