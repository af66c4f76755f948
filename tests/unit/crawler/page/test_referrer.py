"""Referers: as the standard has them, which Scrapy's own policies are compared with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy.settings import Settings
from scrapy.spidermiddlewares.referer import RefererMiddleware

from crawling.page.referrer import _POLICIES, policy_of, usual

_URLS = st.sampled_from(
    [
        "http://a.example/secret?q=1",
        "https://a.example/secret",
        "https://a.example:8443/x",
        "http://b.example/",
        "https://b.example/a#fragment",
        "http://a.example?q",
        "http://[::1]:8080/x",
    ]
)


@given(st.sampled_from(sorted(_POLICIES)), _URLS, _URLS)
def test_each_policy_tells_what_scrapys_own_tells(name: str, page: str, url: str) -> None:
    """Sends the same Referer as Scrapy for any two URLs."""
    theirs = RefererMiddleware(Settings()).policies[name]().referrer(page, url)
    assert _POLICIES[name](page, url) == (theirs or "")


@pytest.mark.parametrize(
    ("headers", "name"),
    [
        ([], "strict-origin-when-cross-origin"),
        ([b"unsafe-url"], "unsafe-url"),
        ([b"Origin, no-such-policy"], "origin"),
        ([b"no-referrer", b"same-origin"], "same-origin"),
        ([b"sys.exit"], "strict-origin-when-cross-origin"),
        ([b"origin," * 50_000], "origin"),
    ],
)
def test_the_last_policy_that_is_known_holds(headers: list[bytes], name: str) -> None:
    """The last known policy of all headers holds; an unknown name means nothing."""
    assert policy_of(headers) is _POLICIES[name]


def test_the_paths_of_a_page_stay_within_its_origin() -> None:
    """Keeps paths within their origin, unless the page says otherwise."""
    assert usual("http://wiki.intranet/plans?x", "https://b.example/") == "http://wiki.intranet/"
    assert (
        usual("http://wiki.intranet/plans", "http://wiki.intranet/") == "http://wiki.intranet/plans"
    )
    assert usual("https://a.example/x", "http://b.example/") == ""
