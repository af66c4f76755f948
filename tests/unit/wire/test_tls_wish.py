"""The TLS profile that a crawl request may ask for."""

from __future__ import annotations

import pytest

from crawlstream.errors import InvalidRequest
from crawlstream.model.request import RequestLimits, profile_of
from crawlstream.wire.crawl_request import crawl_request

FIELDS = {"appid": "app", "crawlid": "c", "url": "https://a.example/"}


@pytest.mark.parametrize("said", [None, "default", "legacy"])
def test_pages_inherit_what_a_seed_asks_for(said: str | None) -> None:
    """Passes the TLS profile of a seed on to its pages, or none."""
    assert profile_of(crawl_request({**FIELDS, "tls": said}, RequestLimits())).tls == said


def test_what_the_operator_does_not_allow_is_refused_by_name() -> None:
    """Names the allowed profiles and the setting when it refuses one."""
    limits = RequestLimits(tls_profiles=("default",))
    words = r"\$\.tls: .*'legacy' is not allowed.*allowed: default \(CRAWLSTREAM_TLS_PROFILES\)"
    with pytest.raises(InvalidRequest, match=words):
        crawl_request({**FIELDS, "tls": "legacy"}, limits)
    assert crawl_request({**FIELDS, "tls": "default"}, limits).tls == "default"


def test_a_browser_takes_no_profile() -> None:
    """It has a TLS of its own."""
    with pytest.raises(InvalidRequest, match="leave out `tls` or `render`"):
        crawl_request({**FIELDS, "tls": "legacy", "render": True}, RequestLimits())
    assert crawl_request({**FIELDS, "tls": "legacy", "render": False}, RequestLimits()).tls
