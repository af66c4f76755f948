"""The TLS profile and the browser that a crawl request may ask for."""

from __future__ import annotations

from typing import Any

import pytest

from crawlstream.errors import InvalidRequest
from crawlstream.model.egress.render import lanes_of
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


@pytest.mark.parametrize(
    ("said", "wish", "lanes"),
    [
        (None, None, ("shop",)),
        (False, None, ("shop",)),
        (True, {}, ("shop+render",)),
        ({"wait_ms": 5}, {"wait_ms": 5}, ("shop+render",)),
        ({"auto": False}, {}, ("shop+render",)),
        ("auto", {"auto": True}, ("shop", "shop+render")),
        ({"auto": True, "wait_for": "a"}, {"auto": True, "wait_for": "a"}, ("shop", "shop+render")),
    ],
)
def test_seeds_wait_for_the_crawlers_that_are_to_fetch_them(
    said: Any, wish: Any, lanes: tuple[str, ...]
) -> None:
    """Seeds of automatic rendering wait for crawlers without a browser first."""
    profile = profile_of(crawl_request({**FIELDS, "render": said}, RequestLimits()))
    assert profile.render == wish
    assert lanes_of("shop", profile.render) == lanes


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"render": {"auto": True, "screenshot": "full"}},
            "`auto` excludes `screenshot` and `actions`",
        ),
        ({"render": {"auto": True, "actions": [{"scroll": 1}]}}, "`auto` excludes"),
        ({"render": "auto", "tls": "legacy"}, "leave out `tls` or `render`"),
        ({"render": "auto", "method": "POST"}, "needs the method GET"),
    ],
)
def test_wishes_that_a_browser_cannot_fulfil_are_refused(
    fields: dict[str, Any], sentence: str
) -> None:
    """Refuses them with a sentence that says what to change."""
    with pytest.raises(InvalidRequest, match=sentence):
        crawl_request({**FIELDS, **fields}, RequestLimits())
